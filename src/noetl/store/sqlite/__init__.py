"""The store in one SQLite file: WAL, `synchronous=FULL`, one transaction per commit.

Read first: `store.py`, `history.py`, `waits.py`; data of the installation is in `installation.py`.
"""
