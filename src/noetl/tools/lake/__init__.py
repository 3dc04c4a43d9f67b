"""Lakes: tables kept as files of Parquet with a catalogue or a log beside them, read by extensions of DuckDB.

The work is done by the child process of the `duckdb` tool, which loads the extensions from wheels and is confined
before it sees anything of the playbook. Read first: `tool.py`; then `tools/duckdb/extensions.py`, in the child.
"""
