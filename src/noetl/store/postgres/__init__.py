"""The store in PostgreSQL: one schema, one statement per commit, rows as locks.

Read first: `store.py`, `commits.py`, `database.py`; what no execution owns is in `installation.py`.
"""
