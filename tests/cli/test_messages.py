"""`noetl message`: sent from another terminal, delivered by whoever runs the waiting execution (CLI-05, MSG-02)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import call
from tests.cli.waiting_run import WaitingRun, done, json_output, left_waiting, refused
from tests.control.waiting import MESSAGE
from tests.engine_script import playbook


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "orders.yaml"
    file.write_text(playbook(MESSAGE))
    return file


@pytest.mark.req("CLI-05", "MSG-02")
def test_a_running_execution_receives_a_message_from_another_terminal(tmp_path: Path, file: Path) -> None:
    with WaitingRun(file, tmp_path, "waits", 'for message "paid" (order=7)') as run:
        other = done(run.db, "message", "send", "paid", "-c", "order=8", "--id", "m1")
        said = done(run.db, "message", "send", "paid", "-c", "order=7", "--payload", '{"sum": 3}')
        code, stderr = run.end()

    assert other == 'message m1 is stored until a step waits for "paid"\n'
    assert "was delivered to execution" in said
    assert code == 0, stderr
    [received] = json_output(run.db, "events", "last", "--type", "message.received")
    assert received["payload"]["payload"] == {"sum": 3}


@pytest.mark.req("MSG-02", "MSG-03")
def test_a_message_is_stored_for_a_run_that_is_resumed_later(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    left_waiting(db, playbook(MESSAGE))

    sent = json_output(db, "message", "send", "paid", "-c", "order=7", "--id", "m1")
    again = json_output(db, "message", "send", "paid", "-c", "order=7", "--id", "m1")
    assert sent == {"message_id": "m1", "delivered_to": None, "known": False}
    assert again["known"]
    assert "another message was sent as m1" in refused(db, "message", "send", "paid", "--id", "m1")

    code, _, stderr = call("run", "--resume", "last", "--db", db)
    assert code == 0, stderr
    assert json_output(db, "message", "send", "paid", "-c", "order=7", "--id", "m1")["delivered_to"] is not None


@pytest.mark.req("MSG-03")
def test_a_message_can_arrive_before_a_step_waits_for_it(tmp_path: Path, file: Path) -> None:
    db = str(tmp_path / "s.db")
    done(db, "message", "send", "paid", "-c", "order=7")

    assert call("run", str(file), "--db", db)[0] == 0


def test_an_invalid_message_is_refused_with_the_reason(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    many = [part for n in range(9) for part in ("-c", f"k{n}={n}")]

    assert "9 keys, and 8 is the limit" in refused(db, "message", "send", "paid", *many)
    for wrong in (["--payload", "{"], ["-c", "order"], ["--ttl", "soon"], ["--payload", "@nowhere.json"]):
        code, _, stderr = call("message", "send", "paid", *wrong, "--db", db)
        assert (code, "Error: Invalid value" in stderr) == (2, True), stderr
