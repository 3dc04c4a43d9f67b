"""`convert`: tables between CSV, JSON, Parquet, Excel and XML, in a child process.

The task's side (`tool.py`) finds files and moves objects. The child's side reads the source as a view of DuckDB
(`sources.py`), determines the types of its columns (`child.py`), and writes the target (`targets.py`). The child does
not know where an object lies or how it is reached.
"""
