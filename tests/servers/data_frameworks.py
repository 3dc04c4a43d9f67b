"""Interpreters with dbt, dlt and dask, in an environment of their own: they are large, and pin what others need."""

from __future__ import annotations

from tests.servers.environments import python_environment

_PACKAGES = ("dbt-core==1.11.16", "dbt-duckdb==1.11.1", "duckdb==2.0.0", "dlt==1.31.0")


def frameworks_python() -> str:
    return str(python_environment("data-frameworks", *_PACKAGES) / "python")
