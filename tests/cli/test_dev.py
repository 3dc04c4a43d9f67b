"""`noetl dev`: everything on one port, and a whole cluster; nothing of either is left when it ends (design.md §2)."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.cli.tools import Allowed
from tests.cli.processes_here import Here, here
from tests.cli.running import FIXTURES
from tests.engine_script import playbook
from tests.process_liveness import is_alive
from tests.waiting import until

pytestmark = pytest.mark.timeout(400)  # each of its processes may take its time to start
HELLO = str(FIXTURES / "F-000-A.yaml")
SHELL = playbook("workflow: [{step: start, tool: [{name: hi, kind: shell, cmds: echo hi}]}]")


def _said(place: Here, child: subprocess.Popen[bytes], words: str) -> str:
    def look() -> str:
        assert child.poll() is None, place.logs()
        return place.logs() if words in place.logs() else ""

    return until(look, 150)


@pytest.mark.req("CLI-01")
def test_dev_prints_its_address_and_token_once_and_runs_playbooks(tmp_path: Path) -> None:
    with here(tmp_path) as place:
        first = place.spawn("dev", "--port", "0", "--no-open")
        said = _said(place, first, "noetl_first_")
        ran = place.call("run", HELLO, "--server", "dev", "-o", "json")
        first.send_signal(signal.SIGINT)
        assert first.wait(100) == 0

        again = place.spawn("dev", "--port", "0", "--no-open")
        until(lambda: (tmp_path / "1-dev.log").read_text().startswith("NoETL at") or None)
        listed = place.call("executions", "--server", "dev", "-o", "id").stdout.split()
        again.send_signal(signal.SIGTERM)
        assert again.wait(100) == 0

    assert "NoETL at http://127.0.0.1:" in said
    assert json.loads(ran.stdout)["status"] == "completed"
    assert listed == [json.loads(ran.stdout)["execution_id"]], "the file is the same, and so is the token"
    assert "noetl_first_" not in (tmp_path / "1-dev.log").read_text()
    assert list((tmp_path / "home" / "run").glob("*.json")) == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Where root runs this, PostgreSQL is another user's process, and pytest's own folders are closed to it."""
    folder = Path(tempfile.mkdtemp(prefix="noetl-cluster-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.req("CLI-01")
def test_a_local_cluster_runs_a_playbook_and_leaves_no_process(open_folder: Path) -> None:
    with here(open_folder) as place:
        tools = ("--allow", "shell", "--deny", "http")
        # Executed, not forked: metrics are shared by what is imported after the option was read.
        cluster = place.spawn(
            "dev", "--cluster", "--port", "0", "--no-open", "--processes", "2", *tools, PYTHONUTF8="1"
        )
        _said(place, cluster, "talk to it with --server cluster; Ctrl-C ends it")
        (open_folder / "shell.yaml").write_text(SHELL)
        ran = place.call("run", "shell.yaml", "--server", "cluster", "-o", "json")
        kept = place.call("credential", "set", "api", "--server", "cluster", "--from-env", "VALUE", VALUE="long enough")
        servers = json.loads(place.call("server", "status", "-o", "json").stdout)
        workers = json.loads(place.call("worker", "status", "-o", "json").stdout)
        children = _children(cluster.pid)
        further = until(lambda: found if len(found := _further(children)) == len(servers) else None)
        cluster.send_signal(signal.SIGINT)

        assert cluster.wait(180) == 0, place.logs()

    assert json.loads(ran.stdout)["result"]["stdout"] == "hi\n", "its workers may do what the command allows"
    assert kept.returncode == 0, kept.stderr
    assert f"created a master key for credentials: {open_folder / 'home' / 'master.key'}" in place.logs()
    assert (len(servers), len(workers)) == (2, 2)
    assert len(children) >= 5
    assert [pid for pid in [*children, *further] if is_alive(pid)] == []
    assert not (open_folder / "home" / "cluster" / "postgres" / "postmaster.pid").exists()


def test_tool_permissions_are_passed_to_the_workers_of_a_cluster() -> None:
    given = Allowed(allow=("shell", "mcp"), deny=("http",), sandbox=True)

    assert given.as_options() == ["--allow", "shell", "--allow", "mcp", "--deny", "http", "--sandbox"]
    assert Allowed().as_options() == []


def _further(children: list[int]) -> list[int]:
    """The processes that servers have started beside themselves; PostgreSQL has children, too."""
    below = [child for one in children for child in _children(one)]
    return [one for one in below if b"noetl.cli.server_children" in Path(f"/proc/{one}/cmdline").read_bytes()]


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
