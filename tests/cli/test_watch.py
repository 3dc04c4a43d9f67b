"""`noetl watch`, `noetl tools`, completion, and executions that no process drives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from noetl.cli.main import noetl
from tests import forked
from tests.cli.gated_run import Gated
from tests.cli.running import call, process
from tests.cli.stored import stored
from tests.cli.waiting_run import WaitingRun, done, json_output, left_waiting, refused
from tests.control.waiting import MESSAGE
from tests.engine_script import playbook
from tests.process_output import last_words


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """The store, a run that completed, one that failed."""
    db, completed, failed = stored(tmp_path_factory.mktemp("watch"))
    return db, completed.execution_id, failed.execution_id


def test_watch_prints_the_end_of_a_finished_run(runs: tuple[str, str, str]) -> None:
    db, completed, failed = runs

    code, out, err = call("watch", completed, "--db", db)
    assert (code, json.loads(out)) == (0, {"said": "all done"})
    assert "completed" in err
    assert call("watch", completed, "-q", "--db", db)[2] == ""
    assert json.loads(call("watch", completed, "-o", "json", "--db", db)[1])["status"] == "completed"
    code, out, err = call("watch", failed, "--db", db)
    assert (code, out) == (1, "")
    assert "no luck" in err


def test_watch_follows_a_run_of_another_process_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(playbook(MESSAGE))
    with WaitingRun(file, tmp_path, "waits", 'for message "paid"') as run:
        code, out, err = call("watch", "last", "--timeout", "0.2s", "--db", run.db)
        assert (code, out) == (5, "")
        assert "goes on in its own process" in err
        done(run.db, "message", "send", "paid", "-c", "order=7")
        assert call("watch", "last", "-q", "--db", run.db)[0] == 0
        assert run.end()[0] == 0


def test_a_waiting_run_without_a_process_is_reported_as_abandoned(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    given = left_waiting(db, playbook(MESSAGE))

    assert f"no process runs it now; resume it with: noetl run --db {db} --resume {given}" in done(db, "status", given)
    assert json_output(db, "status", given)["abandoned"] is True
    assert "resume it with" in refused(db, "watch", given)


def test_a_waiting_run_with_a_process_is_not_abandoned(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(playbook(MESSAGE))
    with WaitingRun(file, tmp_path, "waits", 'for message "paid"') as run:
        assert json_output(run.db, "status", "last")["abandoned"] is False


def test_tools_shows_the_origin_of_each_kind() -> None:
    code, out, _ = call("tools", "-o", "json")
    kinds = {one["kind"]: one for one in json.loads(out)}

    assert code == 0
    assert (kinds["http"]["origin"], kinds["http"]["state"]) == ("noetl", "ready")
    assert kinds["shell"]["state"] == "off; --allow shell"
    assert kinds["snowflake"]["state"] == 'pip install "noetl-engine[snowflake]"'
    assert "url" in kinds["http"]["inputs"]
    assert "http" in call("tools", "-o", "id")[1].split()


def test_tools_follows_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_ALLOW", "shell,script")
    monkeypatch.setenv("NOETL_DENY", "script,http")

    kinds = {one["kind"]: one["state"] for one in json.loads(call("tools", "-o", "json")[1])}

    assert kinds["shell"] == kinds["postgres"] == "ready"
    assert kinds["script"] == kinds["http"] == "denied by the settings"


def asked(words: str) -> dict[str, str]:
    """What a shell says of the line that is to be completed."""
    return {"_NOETL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}


def completed(words: str, **environment: str) -> list[str]:
    """In this process, where it has the time it takes: a person's shell is told nothing after a second."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {**asked(words), **environment}.items():
            patched.setenv(name, value)
        found = BashComplete(noetl, {}, "noetl", "_NOETL_COMPLETE").complete()
    return [line.partition(",")[2] for line in found.split()]


def test_execution_ids_and_steps_are_completed_from_the_store(runs: tuple[str, str, str], tmp_path: Path) -> None:
    db, first, second = runs
    home = {"NOETL_DB": db, "NOETL_HOME": str(tmp_path)}

    assert completed("noetl status ", **home) == ["last", second, first]
    assert completed(f"noetl status {first[:35]}", **home) in ([first], [second, first])
    assert completed(f"noetl result {first} --step ", **home) == ["start", "each", "finish"]
    assert "tests/test" in completed("noetl catalog show ", **home)


def test_completion_prints_nothing_when_the_store_or_server_fails(tmp_path: Path) -> None:
    for where in ({"NOETL_DB": str(tmp_path / "none.db")}, {"NOETL_SERVER": "http://127.0.0.1:9"}):
        ended = process(**asked("noetl status "), **where, NOETL_HOME=str(tmp_path))
        assert (ended.stdout.split(), ended.stderr) == ([], "")
    assert not (tmp_path / "none.db").exists()


# Ctrl-C, for real: once records and ends, twice stops at once, and either way the run can be taken up.


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    with Gated(tmp_path) as gated:
        gated.until("wait", "started")
        yield gated


def test_an_interrupt_while_the_program_loads_is_quiet(tmp_path: Path) -> None:
    """A stand-in for the first library that is imported says that it is being imported, and waits there. It sleeps for
    moments only: Python does not hear of a signal that came just before it fell asleep until it wakes up."""
    (tmp_path / "click.py").write_text("import time; print('loading', flush=True)\nwhile True: time.sleep(0.01)")
    loading = subprocess.Popen(
        [sys.executable, "-c", "from noetl.cli.main import main; main()"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert loading.stdout is not None
    assert loading.stdout.readline() == "loading\n"

    loading.send_signal(signal.SIGINT)
    _, stderr = last_words(loading)

    assert (loading.returncode, stderr) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_prints_a_working_resume_command(gated: Gated, number: signal.Signals) -> None:
    gated.running.send_signal(number)
    code, stderr = gated.end()

    assert code == 130
    assert "interrupted: recording what is done" in stderr
    command = stderr.strip().splitlines()[-1].partition("resume it with: noetl ")[2].split()
    assert gated.resume(*command) == "through"


def test_a_second_signal_stops_at_once_and_loses_nothing_recorded(gated: Gated) -> None:
    os.kill(gated.running.pid, signal.SIGSTOP)  # so that both signals are there before either is handled

    gated.running.send_signal(signal.SIGINT)
    gated.running.send_signal(signal.SIGTERM)
    os.kill(gated.running.pid, signal.SIGCONT)
    code, stderr = gated.end()

    assert code == 130
    assert "resume it with" not in stderr, "it did not wait to say so"
    assert gated.resume() == "through"
    starts = call("events", "last", "--db", str(gated.db), "--step", "start", "--type", "task.started", "-o", "jsonl")[
        1
    ]
    assert len(starts.splitlines()) == 1, "what was recorded is not done again"


def test_status_of_an_abandoned_run_prints_how_to_resume_it(gated: Gated) -> None:
    running = call("status", "last", "--db", str(gated.db))[1]

    gated.running.kill()
    gated.end()
    killed = call("status", "last", "--db", str(gated.db))[1]

    assert "no process runs it" not in running
    assert "▸ wait              runs gate, since" in running
    assert "steps     1 done, 1 under way" in running
    assert f"no process runs it now; resume it with: noetl run --db {gated.db} --resume " in killed
    assert call("result", "last", "--db", str(gated.db))[2].endswith("has not ended: it is running\n")
    assert gated.resume() == "through"


def test_events_and_logs_are_followed_from_another_terminal_until_the_end(gated: Gated) -> None:
    following = [
        forked.Popen(
            [*forked.NOETL, verb, "last", "--follow", "-o", "jsonl", "--db", str(gated.db)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for verb in ("events", "logs")
    ]
    assert following[0].stdout is not None
    assert json.loads(following[0].stdout.readline())["seq"] == 1, "what is there already is shown at once"

    gated.gate.touch()
    events, _ = (last_words(one)[0] for one in following)
    code, _ = gated.end()

    assert code == 0
    assert [one.returncode for one in following] == [0, 0]
    seqs = [json.loads(line)["seq"] for line in events.splitlines()]
    assert seqs == list(range(2, len(seqs) + 2))
    assert json.loads(events.splitlines()[-1])["event_type"] == "playbook.processed"
