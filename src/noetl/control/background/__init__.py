"""What a server does periodically.

`background_jobs.py` starts timers, messages and schedules. `lost_work.py` looks every second for orders and
children that crashed processes left (`recovery.py`). `retention.py` deletes old executions.
Read first: `lost_work.py`, `recovery.py`.
"""
