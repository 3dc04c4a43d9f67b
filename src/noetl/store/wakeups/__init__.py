"""Wake-ups: the hint that there is work, within a process, over PostgreSQL or NATS.

A wake-up may be lost, doubled or late and carries no state: delete the broker's data and every execution still
completes. Read first: `contract.py`, `linked.py`.
"""
