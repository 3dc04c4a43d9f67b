"""A compensation of several tasks, resumed midway: later tasks read what the earlier ones wrote (SAGA-01, SAGA-03)."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from noetl.control.claiming.orders import order_for
from noetl.engine.commands import CancelExecution
from noetl.events.orders import Order
from tests import forked
from tests.cli.running import call
from tests.contracts.stores import fresh_url
from tests.engine_script import Conversation, playbook

TWO_TASKS = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    set_ctx: {kept: {a: 1, b: 2}, n: 1}
    compensate:
      spec: {idempotent: true}
      tool:
        - {name: first, kind: python, code: x, args: {n: "{{ ctx.n }}", kept: "{{ ctx.kept }}"}}
        - {name: second, kind: python, code: x}
    next: {arcs: [{step: later}]}
  - {step: later, tool: {kind: python, code: x}, set_ctx: {n: 2}, next: {arcs: [{step: rest}]}}
  - {step: rest, tool: {kind: python, code: x}}
"""


def half_undone(**written: Any) -> Conversation:
    """The first task of the compensation has ended, and its worker is lost."""
    talk = Conversation(TWO_TASKS)
    talk.start()
    talk.done("start")
    talk.done("later")
    talk.tell(CancelExecution(at=talk.clock.now(), compensate=True))
    [talk.names["undo#1"]] = talk.execution.side_work.step_runs
    talk.claim("undo")
    talk.report(talk.report_of("undo", *talk.task("undo", set_ctx=written, next="second")))
    return talk


def taken_up(talk: Conversation) -> Order:
    talk.claim("undo", worker_id="w2")
    order_id = talk.run("undo").lease.order_id
    assert order_id is not None
    return order_for(talk.plan, talk.execution, order_id)


@pytest.mark.req("SAGA-01", "SAGA-03")
def test_a_resumed_compensation_reads_its_captured_and_its_own_values() -> None:
    talk = half_undone(freed="x", **{"kept.b": 3})

    order = taken_up(talk)

    assert order.ctx == {"n": 1, "kept": {"a": 1, "b": 3}, "freed": "x"}, "n is 2 by now, and was 1 then"
    assert order.position.task == "second"
    assert talk.execution.variables.ctx == {"n": 2, "kept": {"a": 1, "b": 3}, "freed": "x"}


@pytest.mark.req("SAGA-01")
def test_a_resumed_compensation_ignores_concurrent_writes() -> None:
    talk = half_undone()

    assert taken_up(talk).ctx == {"n": 1, "kept": {"a": 1, "b": 2}}


KILLED = """
executor: {spec: {policy: {compensation: auto}}}
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
    compensate:
      spec: {idempotent: true}
      tool:
        - name: first
          kind: python
          code: "result = 'freed'"
          spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {freed: "{{ outcome.result }}"}}}}]}}
        - {name: second, kind: python, code: CODE, args: {freed: "{{ ctx.freed | default('not seen') }}"}}
    next: {arcs: [{step: breaks}]}
  - {step: breaks, tool: {kind: python, code: "raise ValueError('no')"}}
"""


def told(db: str, *arguments: str) -> Any:
    code, stdout, stderr = call(*arguments, "--db", db)
    assert code == 0, stderr
    return json.loads(stdout)


@pytest.mark.req("SAGA-01", "SAGA-03", "WRK-08")
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_a_run_killed_between_two_compensation_tasks_resumes_with_the_first_writes(
    backend: str, tmp_path: Path
) -> None:
    db = str(tmp_path / "s.db") if backend == "sqlite" else fresh_url()
    gate = tmp_path / "gate"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\nresult = freed"
    file = tmp_path / "play.yaml"
    file.write_text(playbook(KILLED.replace("CODE", json.dumps(code))))
    words = [*forked.NOETL, "run", str(file), "--db", db]
    running = forked.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    try:
        while "first ok" not in (line := running.stderr.readline()):
            assert line, "the run ended before it was killed"
        until = time.monotonic() + 60
        while not told(db, "events", "last", "--type", "ctx.patched", "-o", "json"):
            assert time.monotonic() < until
    finally:
        running.kill()
        running.wait()
        running.stderr.close()  # not read to its end: the tool's own process may hold it a while longer

    gate.touch()
    call("run", "--db", db, "--resume", "last")

    processed = told(db, "events", "last", "--type", "task.processed", "-o", "json")
    [last] = [event for event in processed if event["payload"]["task"] == "second"]
    assert last["payload"]["outcome"]["result"] == "freed"
