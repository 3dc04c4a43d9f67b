"""`convert`: tables between CSV, JSON, Parquet, Excel and XML, in a child process.

The task's side (`tool.py`) finds files and moves objects; the child's side reads the source as a view of
DuckDB (`sources.py`), decides what types its columns have (`child.py`), and writes the target (`targets.py`).
Refuses to know: where an object lies, and how it is reached.
"""
