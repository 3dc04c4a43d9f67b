"""Interpreters with dbt, dlt and dask, in an environment of their own: they are large, and pin what others need."""

from __future__ import annotations

import subprocess
from functools import cache

from tests.servers.environments import python_environment
from tests.servers.programs import PORT, ServedProgram

_PACKAGES = ("dbt-core==1.11.16", "dbt-duckdb==1.11.1", "duckdb==2.0.0", "dlt==1.31.0", "distributed==2026.8.0")


def frameworks_python() -> str:
    return str(python_environment("data-frameworks", *_PACKAGES) / "python")


_DASK = """
import sys
from distributed import LocalCluster
cluster = LocalCluster(
    n_workers=1, threads_per_worker=2, processes=False, host="127.0.0.1", protocol="tcp://",
    scheduler_port=int(sys.argv[1]), dashboard_address=None, resources={"GPU": 1},
)
sys.stdin.read()
"""


class DaskCluster(ServedProgram):
    """A scheduler and a worker, in one process; it ends with the test process, whose pipe it reads."""

    def __init__(self) -> None:
        super().__init__([frameworks_python(), "-c", _DASK, PORT], stdin=subprocess.PIPE)

    @property
    def auth(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"


@cache
def dask_cluster() -> DaskCluster:
    return DaskCluster()
