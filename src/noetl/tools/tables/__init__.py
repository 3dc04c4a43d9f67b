"""Tables: rows of a task as a Parquet file in the results store, named in the log by a small reference.

A task writes its rows to a file, chunk by chunk; the file is masked, measured and stored. The next task that is given
the reference gets the file. Neither direction passes through an event. Parquet is read and written by DuckDB, in a
child process, so that no kind needs a library of its own for it.

Read first: `files.py` (what DuckDB does with the files), `stored.py` (from a file to a reference and back).
"""
