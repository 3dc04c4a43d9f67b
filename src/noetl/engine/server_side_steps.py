"""Step runs that the server executes itself, because nothing in them needs a tool (design.md §3).

These are steps without tasks, and pipelines that contain only `noop` tasks. Their events are those of a worker, written
on its behalf (EVT-04). Each decision runs one task; the state holds the position in the pipeline.
"""

from __future__ import annotations

from typing import Any

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.decision import Decision, Draft, patch_ctx
from noetl.engine.execution import Execution, StepRun
from noetl.engine.identity import SERVER
from noetl.engine.pipeline.payloads import fitted_entry
from noetl.engine.pipeline.policy import PolicyRun, judge
from noetl.engine.pipeline.preparation import NOOP, keeps_prev, noop_result, prepare, with_reference_args
from noetl.engine.pipeline.progress import budget_error, pipeline_end, position_after, task_run_id
from noetl.engine.pipeline.result_schemas import stored_result
from noetl.engine.pipeline.scopes import task_scope
from noetl.engine.plan import Plan
from noetl.engine.scopes import surroundings_of
from noetl.events.outcomes import Error, Meta, Outcome, Status
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.net.kinds import NOTHING_BOUND
from noetl.net.task import Task


def run_in_place(plan: Plan, execution: Execution, run: StepRun, at: float) -> Decision:
    """Decide the next task of `run`, or its end."""
    position = run.progress.position
    draft = Draft(execution, at, run.event_id)
    if position.task is None:
        _end(draft, run, StepDone())
    # A policy may jump back to an earlier task. Without this limit a pipeline of noops would never leave `advance`.
    elif error := budget_error(position, plan.max_task_runs):
        _end(draft, run, StepFailed(error=error))
    else:
        _decide_task(plan, draft, execution, run, at)
    return draft.decision()


def _end(draft: Draft, run: StepRun, ended: StepDone | StepFailed) -> None:
    draft.add(ended, run=run, on_behalf=True, parent_id=run.event_id)


def _decide_task(plan: Plan, draft: Draft, execution: Execution, run: StepRun, at: float) -> None:
    step, position = plan.step(run.step), run.progress.position
    index = next(i for i, task in enumerate(step.tasks) if task.name == position.task)
    task, following = step.tasks[index], step.tasks[index + 1 :]
    run_id = task_run_id(run.step_run_id, position)
    about: dict[str, Any] = {"on_behalf": True, "task_run_id": run_id, "parent_id": run.event_id}
    draft.add(
        TaskStarted(
            task=task.name,
            kind=NOOP,
            visit=position.visit,
            attempt=position.attempt,
            task_run_id=run_id,
            worker_id=SERVER,
            origin=task.origin,
        ),
        run=run,
        **about,
    )
    raw = _noop_outcome(plan, execution, run, task, following[0].name if following else None, run_id, at)
    # Truncated like the report of a worker: the server writes the same events on its behalf.
    processed = fitted_entry(raw, plan.max_payload_bytes, plan.keep)
    event = draft.add(processed, run=run, **about)
    if processed.decision.set_ctx:
        patch_ctx(draft, execution, run, processed.decision.set_ctx, parent_id=event.event_id)
    end = pipeline_end(position_after(position, processed, at), processed.decision)
    if isinstance(end, StepDone):
        wanted, most = step.result, plan.max_payload_bytes
        end = StepDone(result=stored_result(end.result, wanted, plan.load, plan.keep, most))
    if end is not None:
        _end(draft, run, end)


def _noop_outcome(
    plan: Plan, execution: Execution, run: StepRun, task: Task, following: str | None, run_id: str, at: float
) -> TaskProcessed:
    around, position = surroundings_of(plan, execution, run), run.progress.position
    # A noop starts and ends at the time of the command: the engine reads no clock.
    meta = Meta(
        attempt=position.attempt, started_at=at, finished_at=at, trace_id=execution.trace_id, task_run_id=run_id
    )
    try:
        around = with_reference_args(task, around, position, now=at)
        prepared = prepare(task, task_scope(around, position, task), now=at, bound=NOTHING_BOUND)
        outcome = Outcome(status=Status.SUCCESS, result=noop_result(prepared.inputs), meta=meta)
    except (TemplateError, ToolError) as problem:
        error = Error(kind=problem.kind, message=f'inputs of task "{task.name}": {problem}')
        outcome = Outcome(status=Status.ERROR, error=error, meta=meta)
    decision = judge(
        PolicyRun(
            task=task,
            following=following,
            position=position,
            task_run_id=run_id,
            outcome=outcome,
            scope=task_scope(around, position, task, outcome=outcome),
            now=at,
        )
    )
    return TaskProcessed(
        task=task.name,
        visit=position.visit,
        attempt=position.attempt,
        task_run_id=run_id,
        outcome=outcome,
        decision=decision,
        keeps_prev=outcome.ok and keeps_prev(task),
        worker_id=SERVER,
        origin=task.origin,
    )
