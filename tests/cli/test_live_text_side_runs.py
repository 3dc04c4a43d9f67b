"""Compensations, handlers and async tasks in `status`, `explain` and runs as shown (beyond.md, SAGA, ADV-01)."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from noetl.base.clock import ManualClock
from noetl.cli.live import Lines
from noetl.cli.live_screen import Screen
from noetl.engine.commands import CancelExecution, ChangeLimit, InjectEvent
from noetl.events.control import StepRate
from tests.cli.running import call
from tests.cli.waiting_run import WaitingRun, json_output
from tests.engine_script import Conversation, playbook
from tests.side_runs.handled_playbook import talk_of
from tests.side_runs.sagas import ORDER, undoing

UNDOING = """
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
    compensate: {spec: {idempotent: true}, tool: {name: undo_start, kind: python, code: "result = 0"}}
    next: {arcs: [{step: late}]}
  - step: late
    tool:
      - {name: work, kind: python, code: "result = 1"}
      - {name: beside, kind: python, code: CODE, spec: {async: true}}
    compensate: {spec: {idempotent: true}, tool: {name: undo_late, kind: python, code: CODE}}
    next: {arcs: [{step: breaks}]}
  - step: breaks
    tool: {kind: python, code: "raise ValueError('no')"}
    next: {arcs: [{step: sorry, when: "{{ event.name == 'step.failed' }}", spec: {trigger_compensation: true}}]}
  - {step: sorry, tool: {kind: noop}}
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[WaitingRun]:
    gate = tmp_path / "gate"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    file = tmp_path / "play.yaml"
    file.write_text(playbook(UNDOING.replace("CODE", json.dumps(code))))
    with WaitingRun(file, tmp_path, "late", "is undone") as waiting:
        yield waiting
        gate.touch()
        waiting.end()


@pytest.mark.req("SAGA-02", "TOOL-12")
def test_status_and_explain_show_side_runs(run: WaitingRun) -> None:
    until = time.monotonic() + 60
    status = json_output(run.db, "status", "last")
    while any(one["state"] != "running" for one in status["side_runs"]):
        assert time.monotonic() < until
        status = json_output(run.db, "status", "last")

    assert [(one["kind"], one["step"]) for one in status["side_runs"]] == [("async", "late"), ("compensation", "late")]
    assert status["to_undo"] == 1
    _, text, _ = call("status", "last", "--db", run.db)
    assert "↶ late              async runs beside, since " in text
    assert "↶ late              compensation runs" in text
    assert "↶ 1 more to undo" in text
    explained = json_output(run.db, "explain", "last")
    said = " | ".join(explained["sentences"])
    assert "the compensation of step late, task undo_late is running: it waits for worker" in said
    assert "which ends at 2" in said
    assert "an asynchronous task of step late, task beside is running" in said
    assert "to be undone after that, in this order: start" in said
    assert [one["state"] for one in explained["side_runs"]] == ["running", "running", "pending"]


def shown(talk: Conversation) -> tuple[str, str]:
    """The log so far as lines, and as a screen."""
    lines: list[str] = []
    clock = ManualClock(talk.clock.now())
    Lines(lines.append, clock=clock)(talk.log)
    written = io.StringIO()
    screen = Screen(Console(file=written, force_terminal=True, width=120, height=40, color_system=None), clock=clock)
    screen(talk.log)
    screen.tick()
    screen.close()
    return "\n".join(lines), written.getvalue()


def test_a_compensation_is_shown_while_it_runs() -> None:
    talk = undoing()
    talk.claim("undo")

    lines, screen = shown(talk)

    assert "↶ 2 to undo (cancel)" in lines
    assert "charge            ↶ is undone" in lines
    assert "↶ charge            compensation runs" in screen


def test_a_handler_is_shown_while_it_runs_and_when_it_is_done() -> None:
    talk = talk_of()
    talk.tell(InjectEvent(at=talk.clock.now(), name="audit.required", data={"who": "ann"}))

    lines, screen = shown(talk)

    assert "▸ handles audit.required" in lines
    assert "↶ start             handler of audit.required waits for a worker" in screen


def test_a_changed_limit_is_shown() -> None:
    talk = Conversation(ORDER)
    talk.start()
    rate = StepRate(limit=10, per_s=1)
    talk.tell(ChangeLimit(at=talk.clock.now(), step="ship", limit=3, rate=rate, reason="it is late"))
    talk.tell(ChangeLimit(at=talk.clock.now(), step="ship", limit=None, rate=None))

    for text in shown(talk):
        assert "limit set to 3 at once, 10 in 1 s: it is late" in text
        assert "limit reset" in text


def test_compensations_that_never_started_are_not_counted_after_a_second_cancel() -> None:
    from noetl.events.projection.projection import Projection

    talk = undoing()
    progress = Projection()
    progress.take_all(talk.log)
    assert progress.to_undo == 1
    progress.take_all(talk.tell(CancelExecution(at=talk.clock.now(), reason="stop it")))

    assert (progress.to_undo, progress.side_runs) == (0, {})
