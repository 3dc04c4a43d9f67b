"""`sql` and `snowflake`: SQL on databases that SQLAlchemy reaches, in a child process.

`requests.py` (what a task asks for) and `answers.py` (the shape of what it gives back) serve `postgres` and `duckdb`
too. Read first: `tool.py`, `child.py`, `engines.py`.
"""
