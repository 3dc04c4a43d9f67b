"""What workers can do is seen on the command line: labels of pools, orders that nobody takes, private authorities."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from noetl.client.api_request import UnreachableError
from tests.cli.processes_here import here
from tests.servers.certificates import make_certificates
from tests.waiting import until

pytestmark = pytest.mark.timeout(400)  # each of its processes may take its time to start
SHELL_IN_A_STEP = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: mixed, path: tests/mixed }
workflow:
  - step: start
    spec: { pool: gpu }
    tool: { kind: shell, cmds: ["true"] }
"""


@pytest.mark.req("CLI-01", "SRV-08")
def test_labels_and_kinds_select_the_worker_and_all_views_show_them(tmp_path: Path) -> None:
    with here(tmp_path) as place:
        place.server("--context", "team", "--allow", "shell")
        there = ["--server", "team"]
        assert place.call("pool", "set", "gpu", "--require", "gpu=yes", "--capacity", "2", *there).stdout == (
            "gpu: 2 at once, for workers with gpu=yes\n"
        )
        token = place.call("token", "create", "w", "--role", "worker", "--pool", "gpu", *there)
        (tmp_path / "worker-token").write_text(token.stdout)
        working = ["worker", "start", *there, "--token-file", "worker-token", "--pool", "gpu"]
        refused = place.call(*working, "--label", "zone=a")
        assert refused.returncode == 4
        assert 'pool "gpu" requires the labels gpu=yes; this one carries zone=a' in refused.stderr

        place.worker("--pool", "gpu", "--label", "gpu=yes", "--name", "plain")
        with place.client() as client:
            client.register(SHELL_IN_A_STEP)
            started = client.start("tests/mixed")
        why = 'no worker of pool "gpu" runs kind shell; workers there run: '
        told = place.call("explain", started.execution_id, *there)
        assert why in told.stdout, told.stdout + told.stderr
        listed = until(lambda: shown if why in (shown := place.call("pool", "list", *there).stdout) else None)
        assert "gpu=yes" in listed
        assert f"1 order waits: {why}" in listed
        assert f"1 order waits: {why}" in place.call("doctor", *there).stdout
        watching = place.spawn("watch", started.execution_id, *there)
        watched = tmp_path / f"{len(place.children) - 1}-watch.log"
        until(lambda: f"· {why}" in watched.read_text())

        place.worker("--pool", "gpu", "--label", "gpu=yes", "--allow", "shell", "--name", "brave")
        with place.client() as client:
            until(lambda: client.get(started.execution_id).status == "completed")
        assert watching.wait(110) == 0
        assert watched.read_text().count(why) == 1
        assert why not in place.call("pool", "list", *there).stdout
        [brave] = [
            one
            for one in json.loads(place.call("worker", "list", "-o", "json", *there).stdout)
            if "brave" in one["worker_id"]
        ]
        assert place.call("worker", "drain", brave["worker_id"], *there).stdout == f"{brave['worker_id']} is drained\n"
        table = place.call("worker", "list", *there).stdout
        assert " drained " in table
        assert re.search(r"\d\d:\d\d:\d\dZ", table), "times in tables are to the second"
        resumed = place.call("worker", "resume", brave["worker_id"], *there).stdout
        assert resumed == f"{brave['worker_id']} takes orders again\n"
        lifted = place.call("pool", "set", "gpu", "--require", "none", *there).stdout
        assert lifted == "gpu: 2 at once\n"


@pytest.mark.parametrize(("given", "words"), [(["--require", "gpu"], "is not key=value"), ([], "--require KEY=VALUE")])
def test_an_invalid_label_is_refused(tmp_path: Path, given: list[str], words: str) -> None:
    with here(tmp_path) as place:
        done = place.call("pool", "set", "gpu", *given, "--server", "http://127.0.0.1:1")

    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.req("CLI-01")
def test_a_private_authority_is_passed_once_and_remembered(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    with here(tmp_path) as place:
        url = place.server("--tls-cert", "cert.pem", "--tls-key", "key.pem")
        strange = place.call("executions", "--server", url, NOETL_TOKEN=place.token)
        assert strange.returncode == 4
        assert "its certificate is not trusted here" in strange.stderr
        assert "not trusted here" in place.call("doctor", "--server", url, NOETL_TOKEN=place.token).stdout
        with place.client() as client, pytest.raises(UnreachableError, match="not trusted here"):
            client.who_am_i()

        by_variable = place.call("executions", "--server", url, NOETL_TOKEN=place.token, NOETL_CA=str(files.ca))
        assert by_variable.returncode == 0, by_variable.stderr
        nothing = place.call("context", "add", "team", url, "--ca", "none.pem")
        assert nothing.returncode == 4
        assert "cannot be read" in nothing.stderr
        added = place.call("context", "add", "team", url, "--token-file", "token", "--ca", "ca.pem")
        assert added.returncode == 0, added.stderr
        known = json.loads(place.call("context", "list", "-o", "json").stdout)["known"]
        assert known["team"]["ca"] == str(files.ca), "wherever the next command runs"

        for server in ("team", url):
            done = place.call("executions", "--server", server)
            assert done.returncode == 0, done.stderr
