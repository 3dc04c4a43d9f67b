"""A worker of v2-case, played by hand: the entries a case run would report next, with the outcome a test gives."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.pipeline.progress import position_after, position_after_entry, task_run_id
from noetl.engine.pipeline.scopes import PipelineScope, no_stored_results
from noetl.engine.v2_case.names import next_task, step_result
from noetl.engine.v2_case.parts import CALL
from noetl.engine.v2_case.position import CaseSite
from noetl.engine.v2_case.walk import CaseWalk, decided
from noetl.events.orders import Entry, Position
from noetl.events.outcomes import Error, Meta, Outcome, Status
from noetl.events.steps import CaseStarted, CaseWaiting, StepDone, StepFailed
from noetl.events.tasks import TaskProcessed, TaskStarted
from tests.engine_script import Conversation


def case_entries(talk: Conversation, name: str, result: Any = None, error: Error | None = None) -> list[Entry]:
    """The entries of a report in which the current or first task of the step run returns `result`."""
    position, entries = talk.run(name).progress.position, list[Entry]()
    if position.case is None:
        walk = CaseWalk(_site(talk, name), position)
        walk.enter()
        started_case = CaseStarted(decision=decided(walk))
        entries.append(started_case)
        position = position_after_entry(position, started_case.decision)
    if position.task is not None:
        started, processed = _task(talk, name, position, result, error)
        entries += [started, processed]
        position = position_after(position, processed, talk.clock.now())
    return [*entries, *_end(talk, name, position)]


def _site(talk: Conversation, name: str) -> CaseSite:
    run, execution, net = talk.run(name), talk.execution, talk.plan.net
    around = PipelineScope(
        execution_id="x1",
        args=run.token.args,
        workload=execution.origin.workload,
        ctx=execution.variables.ctx,
        token={},
        results=execution.outputs.results,
        vars_in_ctx=True,
    )
    steps = frozenset(step.name for step in net.transitions)
    return CaseSite(step=talk.plan.step(run.step), steps=steps, around=around, now=talk.clock.now())


def _task(
    talk: Conversation, name: str, position: Position, result: Any, error: Error | None
) -> tuple[TaskStarted, TaskProcessed]:
    run, now = talk.run(name), talk.clock.now()
    task = next_task(talk.plan.step(run.step), position)
    run_id = task_run_id(run.step_run_id, position)
    about: dict[str, Any] = {"task": task.name, "visit": position.visit, "attempt": position.attempt}
    meta = Meta(attempt=position.attempt, started_at=now, finished_at=now, trace_id="t1", task_run_id=run_id)
    outcome = Outcome(status=Status.ERROR if error else Status.SUCCESS, result=result, error=error, meta=meta)
    walk = CaseWalk(_site(talk, name), position)
    walk.resume(outcome)
    assert position.case is not None
    again = position.case.at == CALL and walk.case.at == CALL
    started = TaskStarted(kind=task.kind, task_run_id=run_id, **about)
    return started, TaskProcessed(outcome=outcome, decision=decided(walk, again=again), task_run_id=run_id, **about)


def _end(talk: Conversation, name: str, position: Position) -> list[Entry]:
    assert position.case is not None
    walk = CaseWalk(_site(talk, name), msgspec.structs.replace(position))
    if walk.waits:
        return [CaseWaiting()]
    if not walk.is_over:
        return []
    if position.case.error is not None:
        return [StepFailed(error=position.case.error)]
    return [StepDone(result=step_result(walk.step, position, no_stored_results))]
