"""`duckdb`: SQL on DuckDB, in a child process that reaches only what its task allows.

Read first: `tool.py`, `child.py`.
"""
