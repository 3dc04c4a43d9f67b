"""The store in PostgreSQL: one schema, one statement per commit, rows as locks.

Read first: `store.py` (a commit is its class `Written`), `database.py`; what no execution owns is in `installation.py`.
"""
