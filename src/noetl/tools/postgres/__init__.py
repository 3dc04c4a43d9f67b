"""`postgres`: SQL on PostgreSQL, templates bound as parameters. Read first: `tool.py`, `session.py`, `targets.py`."""
