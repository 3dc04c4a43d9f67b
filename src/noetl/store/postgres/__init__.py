"""The store in PostgreSQL: one schema, one statement per commit, rows as locks.

Read first: `store.py` (a commit is its class `Written`), `database.py`; data of the installation is in
`installation.py`.
"""
