"""Python tasks on a Dask cluster, by a client in an interpreter that has it. Read first: `tool.py`; `runner.py` is what
runs there."""
