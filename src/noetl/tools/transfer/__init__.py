"""`transfer`: rows from one place to another, in chunks, resumed where the target has recorded how far it came.

Read first: `tool.py`, `sources.py`, `targets.py`."""
