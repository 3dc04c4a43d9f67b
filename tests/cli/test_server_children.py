"""`noetl server start --processes N`: several processes behind one port, seen from outside as one server."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from noetl.cli.server_children import SERVES
from tests.cli.processes_here import SLOW, Here, here
from tests.narrowing import present
from tests.servers import postgres
from tests.waiting import until

pytestmark = pytest.mark.timeout(400)  # each of its processes may take its time to start
QUICK = SLOW.replace("tests/slow", "tests/quick").replace("time.sleep(s)", "time.sleep(0)")
EXECUTED = {"PYTHONUTF8": "1"}  # metrics are shared by what is imported after the option was read: it is not forked


@pytest.fixture
def url() -> Iterator[str]:
    """The address of an empty store."""
    database = f"processes_{uuid4().hex[:8]}"
    postgres.server().ask(f"CREATE DATABASE {database}")
    try:
        yield f"postgresql://postgres@/{database}?host={postgres.server().socket}"
    finally:
        postgres.server().ask(f"DROP DATABASE {database} WITH (FORCE)")


@pytest.fixture
def place(tmp_path: Path, url: str) -> Iterator[Here]:
    with here(tmp_path) as place:
        place.server("--processes", "2", "--workers-in-process", "2", NOETL_DB=url, **EXECUTED)
        yield place


def children_of(pid: int) -> set[int]:
    return {int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def is_server(pid: int) -> bool:
    try:
        return b"noetl.cli.server_children" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has just ended
        return False


def other_process(place: Here) -> int:
    """The child that runs a server, once it serves; tools have children too."""

    def look() -> int | None:
        told = [line for line in place.logs().splitlines() if SERVES in line]
        serving = [one for one in children_of(place.children[0].pid) if is_server(one)]
        return next((one for one in serving if any(f'"pid": {one}' in line for line in told)), None)

    return until(look)


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}/exe").exists()


def figure(place: Here, name: str) -> float:
    told = httpx2.get(f"{place.url}/metrics", headers={"Authorization": f"Bearer {place.token}"}, timeout=60).text
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", told, re.M))


@pytest.mark.req("SRV-08")
def test_several_processes_act_as_one_server_with_joint_metrics(place: Here) -> None:
    other_process(place)
    with place.client() as client:
        client.register(QUICK)

    def ran(_: int) -> str:
        with place.client() as client:  # a connection of its own: either of them accepts it
            started = client.start("tests/quick")
            return str(present(client.wait(started.execution_id, timeout=500)).status)

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(ran, range(24))) == {"completed"}

    assert {figure(place, "noetl_executions_started_total") for _ in range(8)} == {24.0}
    assert figure(place, "noetl_executions_ended_total") == 24.0


def test_a_process_that_dies_is_replaced_and_all_stop_together(place: Here) -> None:
    first, other = place.children[0], other_process(place)
    os.kill(other, signal.SIGKILL)
    replaced = until(lambda: one if (one := other_process(place)) != other else None)
    with place.client() as client:
        client.register(QUICK)
        assert present(client.wait(client.start("tests/quick").execution_id, timeout=500)).status == "completed"

    first.terminate()

    assert first.wait(110) == 0
    until(lambda: not is_there(replaced))


def test_no_process_outlives_the_parent_process(place: Here) -> None:
    other = other_process(place)

    place.children[0].kill()

    until(lambda: not is_there(other))


@pytest.mark.req("CLI-01")
def test_dev_runs_several_processes_that_all_run_orders(tmp_path: Path, url: str) -> None:
    with here(tmp_path) as place:
        told = {"NOETL_DB": url, "NOETL_LOG_LEVEL": "debug", **EXECUTED}  # it says that a process serves only then
        dev = place.spawn("dev", "--port", "0", "--no-open", "--processes", "2", **told)
        other = other_process(place)
        (tmp_path / "quick.yaml").write_text(QUICK)
        ran = [place.call("run", "quick.yaml", "--server", "dev", "-o", "json") for _ in range(2)]
        dev.send_signal(signal.SIGINT)

        assert dev.wait(110) == 0, place.logs()

    assert [json.loads(one.stdout)["status"] for one in ran] == ["completed"] * 2, [one.stderr for one in ran]
    until(lambda: not is_there(other))


@pytest.mark.parametrize("command", [("server", "start"), ("dev", "--no-open")], ids=["server", "dev"])
def test_a_server_on_a_file_store_has_one_process(command: tuple[str, ...], tmp_path: Path) -> None:
    with here(tmp_path) as place:
        refused = place.call(*command, "--processes", "2", "--db", "s.db")

    assert refused.returncode == 4
    assert "--processes needs a store in PostgreSQL" in refused.stderr
    assert "`noetl dev --cluster`" in refused.stderr
    assert not (tmp_path / "s.db").exists()
