"""`noetl cancel --compensate`: what was done is undone before the execution ends as cancelled (O-02)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import forked
from tests.cli.running import call
from tests.engine_script import playbook
from tests.process_output import last_words

TEXT = """
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
    compensate: {spec: {idempotent: true}, tool: {kind: python, code: "result = 'undone'"}}
    next: {arcs: [{step: wait}]}
  - {step: wait, tool: {kind: python, code: "import time; time.sleep(600)"}}
"""


def begun(folder: Path) -> subprocess.Popen[str]:
    """A run in a process of its own that has come to its second step."""
    (folder / "play.yaml").write_text(playbook(TEXT))
    running = forked.Popen(
        [*forked.NOETL, "run", str(folder / "play.yaml"), "--db", str(folder / "s.db")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    while not all(word in (line := running.stderr.readline()) for word in ("wait", "started")):
        assert line, "the run ended too early"
    return running


def ended(db: Path) -> tuple[str, list[str]]:
    status = json.loads(call("status", "last", "-o", "json", "--db", str(db))[1])["status"]
    events = call("events", "last", "-o", "jsonl", "--db", str(db))[1].splitlines()
    return status, [name for one in events if (name := json.loads(one)["name"]).startswith("compensation.")]


DONE = ["compensation.registered", "compensation.requested", "compensation.started", "compensation.done"]


@pytest.mark.req("O-02", "SAGA-02", "CLI-02")
def test_a_running_execution_is_compensated_and_cancelled(tmp_path: Path) -> None:
    running, db = begun(tmp_path), tmp_path / "s.db"
    try:
        code, said, told = call("cancel", "last", "--compensate", "--db", str(db))
        last_words(running)
    finally:
        running.kill()
        running.wait()

    assert code == 0, told
    assert said.startswith("cancelling and compensating execution ")
    assert running.returncode == 5
    assert ended(db) == ("cancelled", DONE)


@pytest.mark.req("O-02", "SAGA-03", "SRV-12")
def test_an_abandoned_execution_is_compensated_when_it_is_resumed(tmp_path: Path) -> None:
    running, db = begun(tmp_path), tmp_path / "s.db"
    running.kill()
    last_words(running)

    code, _, told = call("cancel", "last", "--compensate", "--db", str(db))
    assert code == 0, told
    execution_id = json.loads(call("status", "last", "-o", "json", "--db", str(db))[1])["execution_id"]
    assert call("run", "--db", str(db), "--resume", execution_id)[0] == 5

    assert ended(db) == ("cancelled", DONE)
