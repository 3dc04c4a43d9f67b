"""Servers and workers are started, shown and stopped by their recorded ids, and leave no process (CLI-01)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.cli.processes import Record, is_alive, leave, listed, own_record, stop
from tests.cli.processes_here import SLOW, Here, here
from tests.process_liveness import is_alive as lives
from tests.waiting import until

pytestmark = pytest.mark.timeout(400)  # each of its processes may take its time to start


@pytest.mark.req("CLI-01")
def test_server_and_worker_are_started_listed_and_stopped_by_recorded_ids(tmp_path: Path) -> None:
    place = Here(tmp_path)
    (tmp_path / "noetl.toml").write_text('data_folders = ["nowhere"]\n')
    absent = f"the data folder {tmp_path / 'nowhere'} does not exist"
    try:
        started = place.call("server", "start", "--detach", "--port", "0", "--context", "team")
        assert started.returncode == 0, started.stderr
        assert "noetl_first_" in started.stdout, "the first token is shown once"
        token = place.call("token", "create", "w", "--role", "worker", "--pool", "default")
        (tmp_path / "wt").write_text(token.stdout)
        options = ["--server", "team", "--token-file", "wt", "--pool", "default", "--concurrency", "2", "--name", "one"]
        worker = place.call("worker", "start", "--detach", *options)
        assert worker.returncode == 0, worker.stderr
        assert absent in started.stderr, "a server warns of a data folder that is not there"
        assert absent in worker.stderr

        servers = json.loads(place.call("server", "status", "-o", "json").stdout)
        workers = json.loads(place.call("worker", "status", "-o", "json").stdout)
        assert [one["name"] for one in workers] == ["one"]
        assert lives(servers[0]["pid"])
        for one, said, kind in ((servers[0], started, "server"), (workers[0], worker, "worker")):
            assert f"its log is {one['detail']['log']}" in said.stderr
            assert one["detail"]["log"] in place.call(kind, "status").stdout
        shown = json.loads(place.call("pool", "list", "--server", "team", "-o", "json").stdout)
        assert [(one["name"], one["workers"]) for one in shown] == [("default", 1)]
        assert place.call("pool", "set", "gpu", "--capacity", "3", "--server", "team").stdout == "gpu: 3 at once\n"

        assert place.call("worker", "stop", "one").stdout == f"stopped worker one ({workers[0]['pid']})\n"
        assert place.call("server", "stop").stdout.startswith("stopped server ")
        assert not lives(workers[0]["pid"])
        assert not lives(servers[0]["pid"])
        assert list((tmp_path / "home" / "run").glob("*.json")) == []
        assert place.call("server", "status").returncode == 4
    finally:
        place.call("worker", "stop", "--all", "--force", "--timeout", "5")
        place.call("server", "stop", "--all", "--force", "--timeout", "5")


def test_a_context_added_later_has_a_token_that_the_server_accepts(tmp_path: Path) -> None:
    place = Here(tmp_path)
    start = ("server", "start", "--detach", "--port", "0", "--context", "team")
    try:
        place.call("token", "create", "somebody", "--role", "admin")  # the store has had its first token
        first = place.call(*start)
        asked = place.call("executions", "--server", "team")
        place.call("server", "stop")
        again = place.call(*start)
        asked_again = place.call("executions", "--server", "team")
    finally:
        place.call("server", "stop", "--all", "--force", "--timeout", "5")

    assert "(admin) for the context team" in first.stderr
    assert asked.returncode == 0, asked.stderr
    assert "for the context" not in again.stderr, "the token that the context has is kept"
    assert asked_again.returncode == 0, asked_again.stderr


def test_a_reused_process_id_is_never_signalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        record = Record(kind="worker", name="old", pid=other.pid, started=1, url="http://x", at=0.0)
        leave(record)

        assert not is_alive(record)
        assert stop(record, within_s=1)
        assert listed("worker") == []
        assert other.poll() is None, "somebody else's process runs on"
    finally:
        other.kill()
        other.wait()


def test_a_process_recognises_itself_in_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    place = leave(own_record("server", "8082", "http://127.0.0.1:8082", store="x"))

    assert [one.pid for one in listed("server")] == [os.getpid()]
    assert place.stat().st_mode & 0o077 == 0


def test_a_stopped_worker_finishes_its_running_order(tmp_path: Path) -> None:
    with here(tmp_path) as place:
        place.server()
        worker = place.worker("--drain-timeout", "100")
        with place.client() as client:
            gate = tmp_path / "gate"
            code = f"import os, time\nwhile not os.path.exists('{gate}'): time.sleep(0.01)"
            client.register(SLOW.replace('"import time; time.sleep(s); result = 1"', json.dumps(code)))
            started = client.start("tests/slow")
            until(lambda: [e for e in client.events(started.execution_id) if e.event_type == "task.started"])
            worker.send_signal(signal.SIGTERM)
            until(lambda: "draining" in place.logs())
            gate.touch()

            assert worker.wait(110) == 0, place.logs()
            names = [event.event_type for event in client.events(started.execution_id)]
            assert names.count("step.done") == 1, "what it ran is reported"
            until(lambda: client.workers() == [])  # it has said goodbye, and did not wait long for an answer
            assert client.get(started.execution_id).status == "running", "the rest is for somebody else"
            place.worker()
            ended = client.wait(started.execution_id, timeout=500)

    assert ended is not None
    assert ended.result == "and more"


def test_a_second_signal_stops_a_worker_at_once(tmp_path: Path) -> None:
    with here(tmp_path) as place:
        place.server()
        worker = place.worker("--drain-timeout", "300")
        with place.client() as client:
            client.register(SLOW)
            started = client.start("tests/slow", {"s": 600})
            until(lambda: [e for e in client.events(started.execution_id) if e.event_type == "task.started"])
            worker.send_signal(signal.SIGTERM)
            until(lambda: "draining" in place.logs())
            worker.send_signal(signal.SIGTERM)

            assert worker.wait(110) == 1
            assert "another worker takes it up" in place.logs()


def test_a_port_in_use_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with here(tmp_path) as place:
        port = place.server().rpartition(":")[2]
        ended = place.call("server", "start", "--port", port, "--db", str(tmp_path / "other.db"))

    assert ended.returncode == 4
    assert "choose another --port" in ended.stderr


def test_the_first_token_is_written_to_a_file_readable_by_its_user_only(tmp_path: Path) -> None:
    with here(tmp_path) as place:
        place.server()

    assert place.token.startswith("noetl_")
    assert (tmp_path / "token").stat().st_mode & 0o077 == 0
    assert "noetl_first" not in place.logs()


def test_a_worker_with_a_wrong_token_reports_it(tmp_path: Path) -> None:
    with here(tmp_path) as place:
        url = place.server()
        ended = place.call("worker", "start", "--server", url, NOETL_TOKEN="noetl_wrong_x")

    assert ended.returncode == 4
    assert "(401)" in ended.stderr
