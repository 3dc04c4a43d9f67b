"""The store in one SQLite file: WAL, `synchronous=FULL`, one transaction per commit.

Read first: `store.py`, `history.py`.
"""
