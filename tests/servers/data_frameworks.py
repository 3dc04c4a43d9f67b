"""Interpreters with dbt, dlt, dask and ray, in environments of their own: they are large, and pin what others need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from tests.servers import own_network
from tests.servers.certificates import Certificates
from tests.servers.environments import python_environment
from tests.servers.ports import free_port
from tests.servers.programs import FOLDER, PORT, ServedProgram

_PACKAGES = (
    *("dbt-core==1.11.16", "dbt-duckdb==1.11.1", "dbt-postgres==1.11.0", "duckdb==2.0.0"),
    *("dlt==1.31.0", "psycopg2-binary==2.9.13", "distributed==2026.8.0"),
)


def frameworks_python() -> str:
    return str(python_environment("data-frameworks", *_PACKAGES) / "python")


# A cluster looks at its own load up to a hundred times a second, which took half a minute of the processor while it
# waited for the end of the tests. The tests do not need that.
_DASK = """
import sys
import dask.config
from distributed import LocalCluster
from distributed.security import Security
port, *files = sys.argv[1:]
security = None
if files:
    ca, cert, key = files
    pair = {"cert": cert, "key": key}
    pair = {"cert": cert, "key": key}
    places = {f"tls_{who}_{what}": pair[what] for who in ("scheduler", "worker", "client") for what in pair}
    security = Security(tls_ca_file=ca, require_encryption=True, **places)
dask.config.set({
    "distributed.admin.tick.interval": "10s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "10s",
})
cluster = LocalCluster(
    n_workers=1, threads_per_worker=2, processes=False, host="127.0.0.1",
    protocol="tls://" if security else "tcp://", security=security, scheduler_port=int(port),
    dashboard_address=None, resources={"GPU": 1},
)
sys.stdin.read()
"""


class DaskCluster(ServedProgram):
    """A scheduler and a worker, in one process; it ends with the test process, whose pipe it reads."""

    def __init__(self, certificates: Certificates | None = None) -> None:
        files = map(str, certificates or ())
        self._scheme = "tls" if certificates else "tcp"
        super().__init__([frameworks_python(), "-c", _DASK, PORT, *files], stdin=subprocess.PIPE)

    @property
    def auth(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"


@cache
def dask_cluster() -> DaskCluster:
    return DaskCluster()


class RayCluster(ServedProgram):
    """The head of a cluster, with its client server, without dashboard. It takes a minute on a busy machine, and
    some ten processes. Even if it is configured for loopback it uses the address of the machine's interface, so it
    gets a network that has none."""

    def __init__(self) -> None:
        head, first = free_port(), 20_000  # ports of its workers, below those that the system gives out
        command = [
            *(sys.executable, own_network.__file__, PORT),
            *(str(Path(ray_python()).with_name("ray")), "start", "--head", "--block", "--port", str(head)),
            *("--node-ip-address", "127.0.0.1", "--ray-client-server-port", PORT, "--include-dashboard", "false"),
            *("--min-worker-port", str(first), "--max-worker-port", str(first + 200)),
            *("--num-cpus", "2", "--object-store-memory", "100000000", "--temp-dir", FOLDER, "--disable-usage-stats"),
        ]
        waits = ("RAY_raylet_start_wait_time_s", "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S")
        patient = {**os.environ, **dict.fromkeys(waits, "300")}
        super().__init__(command, environment=patient, own_session=True)

    @property
    def auth(self) -> str:
        return f"ray://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Every process of its session: the cluster's own stay in it, regardless of their parent."""
        for place in Path("/proc").iterdir():
            with suppress(OSError):
                if place.name.isdecimal() and os.getsid(int(place.name)) == self.process.pid:
                    os.kill(int(place.name), signal.SIGKILL)
        super().stop()


def ray_python() -> str:
    return str(python_environment("ray", "ray[client]==2.60.0") / "python")


@cache
def ray_cluster() -> RayCluster:
    tried = subprocess.run([sys.executable, own_network.__file__, "0", "true"], check=False, capture_output=True)
    if tried.returncode == own_network.NOT_HERE:
        reason = "it uses the address of the machine's interface unless it has a network of its own, which this system"
        pytest.skip(f"NOT TESTED: a Ray cluster ({reason} does not allow)")
    return RayCluster()
