"""What a server does periodically.

`background_jobs.py` starts timers, messages and schedules. `garbage_collection.py` looks every second for orders and
children that crashed processes left (`recovery.py`). `retention.py` deletes old executions.
Read first: `garbage_collection.py`, `recovery.py`.
"""
