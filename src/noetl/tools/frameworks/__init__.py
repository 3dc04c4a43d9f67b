"""Data frameworks in an interpreter that has them: dbt projects, dlt pipelines, Python on clusters of Dask and Ray.

In: rendered inputs. Out: the report of the framework, as JSON. A `*_runner.py` is the program that runs in the other
interpreter (`../interpreters.py`); it imports nothing of NoETL. Read first: `dbt.py`, then `dbt_runner.py`.
"""
