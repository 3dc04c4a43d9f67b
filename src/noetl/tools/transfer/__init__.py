"""`transfer`: moves rows from a source to a target, in chunks, and resumes where the target recorded its progress.

Read first: `tool.py`, `contract.py`, then the two kinds of ends: `row_ends.py`, `table_ends.py`.
"""
