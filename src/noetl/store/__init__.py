"""The store: what every backend promises, and the backends.

In: commits (events, orders, the next wake-up time and list rows of one decision). Out: the same, durable, in order,
after any crash.
`contract.py` holds the promises; `tests/contracts` runs one suite over memory, SQLite and PostgreSQL.
Refuses to know: what an event means. It stores, orders and finds.

Read first: `contract.py`, `sqlite/store.py`, `open_store.py`.
"""
