"""The store: the promises of every backend, and the backends.

In: commits (events, orders, the next wake-up time and list rows of one decision). Out: the same, durable, in order,
after any crash.
`contract.py` holds the promises; `tests/contracts` runs one suite over memory, SQLite and PostgreSQL.
It stores, orders and finds, and does not interpret events; only `inspection.py` replays logs, to check and rebuild the
rows beside them.

Read first: `contract.py`, `sqlite/store.py`, `open_store.py`; `sql_files.py` (migrations).
"""
