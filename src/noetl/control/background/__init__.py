"""Periodic jobs of a server.

`BackgroundJobs` (`control/assembly.py`) lists those that move executions: timers, messages, schedules, and from here
`lost_work.py`, which looks every second for orders and children that crashed processes left (`recovery.py`), and
`presence.py`, by which processes on one store see each other. `retention.py` deletes old executions once an hour
(`server/housekeeping.py` calls it).
What else a server runs, such as triggers and notifications, is in `background` of `server/server_process.py`.
Read first: `lost_work.py`, `recovery.py`.
"""
