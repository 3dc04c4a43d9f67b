"""`noetl signal`, `noetl event` and `noetl timer`: sending to running executions from another terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import call
from tests.cli.waiting_run import WaitingRun, done, json_output, left_waiting, refused
from tests.control.waiting import LISTENING, SIGNAL, TIMER
from tests.engine_script import playbook


def written(folder: Path, text: str) -> Path:
    file = folder / "play.yaml"
    file.write_text(playbook(text))
    return file


def steps(db: str) -> list[str]:
    return [event["step"] for event in json_output(db, "events", "last", "--type", "step.scheduled")]


@pytest.mark.req("CLI-05", "MSG-05")
def test_a_running_execution_receives_a_signal_from_another_terminal(tmp_path: Path) -> None:
    with WaitingRun(written(tmp_path, SIGNAL), tmp_path, "waits", 'for signal "stop"') as run:
        assert "no execution waits" in done(run.db, "signal", "send", "go")
        said = done(run.db, "signal", "send", "stop", "--data", '{"why": "late"}')
        code, stderr = run.end()

    assert said.endswith("received stop\n")
    assert code == 0, stderr
    assert steps(run.db) == ["start", "stopped"]


@pytest.mark.req("MSG-05")
def test_a_signal_reaches_all_waiting_executions_or_one(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    one, other, third = (left_waiting(db, playbook(SIGNAL)) for _ in range(3))

    assert done(db, "signal", "send", "stop", "--execution", one) == f"execution {one} received stop\n"
    assert done(db, "signal", "send", "stop").split("\n")[:2] == [
        f"execution {other} received stop",
        f"execution {third} received stop",
    ]
    assert "has ended" in refused(db, "signal", "send", "stop", "--execution", one)


@pytest.mark.req("MSG-06")
def test_an_event_is_injected_into_an_execution(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    left_waiting(db, LISTENING)

    assert '"step.done" is a name of the system itself' in refused(db, "event", "send", "last", "step.done")
    assert done(db, "event", "send", "last", "parcel.arrived", "--data", "3", "--key", "k").endswith("parcel.arrived\n")

    code, _, stderr = call("run", "--resume", "last", "--db", db)
    assert code == 0, stderr
    assert steps(db) == ["start", "open_it"]


@pytest.mark.req("TMR-04")
def test_timers_are_listed_and_cancelled_from_another_terminal(tmp_path: Path) -> None:
    with WaitingRun(written(tmp_path, TIMER), tmp_path, "waits until") as run:
        [timer] = json_output(run.db, "timer", "list")
        assert (timer["timer"], timer["step"], timer["cancellable"]) == ("nap", "start", True)
        assert "nap" in done(run.db, "timer", "list", "last")
        assert 'no timer "siesta"' in refused(run.db, "timer", "cancel", "last", "siesta")
        assert done(run.db, "timer", "cancel", "last", "nap").startswith('cancelled timer "nap"')
        code, stderr = run.end()

    assert code == 0, stderr
    assert steps(run.db) == ["start", "stopped"]
    assert done(run.db, "timer", "list") == "no timers\n"


@pytest.mark.req("TMR-06")
def test_an_interrupted_wait_continues_when_the_run_is_resumed(tmp_path: Path) -> None:
    with WaitingRun(written(tmp_path, TIMER), tmp_path, "waits until") as run:
        assert "waits until" in done(run.db, "status", "last")
        code, stderr = run.interrupt()

    assert code == 130
    assert "--resume" in stderr
    done(run.db, "timer", "cancel", "last", "nap", "--as", "ann")
    assert call("run", "--resume", "last", "--db", run.db)[0] == 0
    [cancelled] = json_output(run.db, "events", "last", "--type", "timer.cancelled")
    assert cancelled["payload"]["actor"] == "ann"


@pytest.mark.req("SRV-07", "SRV-11")
@pytest.mark.usefixtures("nobody_is_waited_for")
def test_an_abandoned_waiting_run_is_controlled_at_once(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    left_waiting(db, playbook(TIMER))

    assert done(db, "pause", "last").startswith("paused execution")
    assert done(db, "cancel", "last").startswith("cancelled execution")

    assert done(db, "timer", "list") == "no timers\n"
