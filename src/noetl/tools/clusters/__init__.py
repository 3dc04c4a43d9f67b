"""Python tasks on clusters of Dask and Ray, by a client in an interpreter that has it. Read first: `tool.py`; what runs
in that interpreter is `dask_runner.py` or `ray_runner.py`."""
