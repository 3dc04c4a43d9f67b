"""Compensating: what steps have done is undone, the last thing first, one at a time (SAGA-01 to SAGA-04). Jobs that an
execution leaves behind elsewhere are undone the same way.

A step that succeeds registers how it is undone, with everything its compensation reads. An arc, the end of a failed
execution or a cancellation asks for it; each registration is used once. A nested playbook is undone by what its own
steps have registered, in an execution of its own that belongs to the one which compensates (design.md §8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.base.errors import TemplateError
from noetl.base.ids import derived
from noetl.engine.admission import pool_of
from noetl.engine.decision import Decision, DispatchStep, Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.identity import order_id_of
from noetl.engine.plan import PLAYBOOK, Plan
from noetl.events.control import PlaybookResumed
from noetl.events.orders import Outer
from noetl.events.outcomes import TaskResult
from noetl.events.side_runs import (
    CompensationRegistered,
    CompensationRequested,
    CompensationStarted,
    Surrounding,
)
from noetl.net.net import Transition, credential_input, pipeline_of, submitting_task
from noetl.net.task import Task
from noetl.templates.scope import Scope

_NOT_DONE = frozenset({"step.interrupted", "step.timeout"})  # ends without an error that are no success either
_WHOLE = re.compile(r"\b(?:ctx|vars)\b(?!\s*\.\s*\w)")  # read as a whole, or by a name that is computed
_OPEN = frozenset({"QUEUED", "RUNNING"})  # QNT-02


def register(draft: Draft, execution: Execution, run: StepRun, step: Transition, ctx: dict[str, Any]) -> None:
    """The step run has succeeded: note how it is undone, with `ctx` as the step left it. Iterations of a loop have done
    so one by one."""
    ended = run.ended
    # What failed has nothing to undo that its author declared: compensation is about finished steps.
    if ended is None or ended.error is not None or ended.name in _NOT_DONE or step.loop is not None:
        return
    if step.compensation is not None or run.children:
        parts = {"args": run.args, "result": ended.result or TaskResult(), "iter": run.position.iter}
        _note(draft, execution, run, step, run.children, parts, ctx)


def register_iteration(
    draft: Draft,
    execution: Execution,
    run: StepRun,
    step: Transition,
    outer: tuple[Outer, ...],
    result: TaskResult,
    iter_: dict[str, Any],
    children: tuple[str, ...],
    ctx: dict[str, Any],
) -> None:
    """One iteration has succeeded; whether the loop does is another matter (SAGA-04). `ctx` is as it saw it last."""
    around = tuple(Surrounding(iterator=one.iterator, index=one.index, item=one.item) for one in outer)
    path = tuple(one.index for one in outer)
    parts = {"args": run.args, "result": result, "iter": iter_, "path": path, "around": around}
    _note(draft, execution, run, step, children, parts, ctx)


def _note(
    draft: Draft,
    execution: Execution,
    run: StepRun,
    step: Transition,
    children: tuple[str, ...],
    parts: dict[str, Any],
    ctx: dict[str, Any],
) -> None:
    """The step's own compensation, which stands in for those of the playbooks it called; else theirs."""
    path = parts.get("path", ())
    # Not both: the author of the step knows what its playbooks did, and undoing it twice is worse than once.
    compensation = step.compensation
    if compensation is not None:
        # Derived, and the name of the event as well: the same step run that is decided again registers once.
        registration_id = derived("registration", run.step_run_id, *path)
        read = _read(execution, ctx, compensation.tasks)
        own = CompensationRegistered(
            registration_id=registration_id,
            owner=run.step_run_id,
            step=run.step,
            task=compensation.tasks[0].name,
            idempotent=compensation.idempotent,
            pool=run.lease.pool,
            **read,
            **parts,
        )
        draft.add(own, run=run, event_id=registration_id)
        return
    for child in children:
        registration_id = derived("registration", child)
        registration = CompensationRegistered(
            registration_id=registration_id,
            owner=run.step_run_id,
            step=run.step,
            task=PLAYBOOK,
            idempotent=True,
            child=child,
            path=path,
            pool=run.lease.pool,
        )
        draft.add(registration, run=run, event_id=registration_id)


def _read(execution: Execution, ctx: dict[str, Any], tasks: Any) -> dict[str, Any]:
    """What the tasks may read of `ctx` and of other steps, as it is now: whatever their text names."""
    text = " ".join(_texts(msgspec.to_builtins(tasks)))
    # Words instead of parsed references: a task's code may read names too. What is kept too much only costs room.
    words = frozenset(re.findall(r"\w+", text))
    whole = _WHOLE.search(text) is not None
    seen = {key: value for key, value in ctx.items() if whole or key in words}
    return {"ctx": seen, "results": {name: one for name, one in execution.outputs.results.items() if name in words}}


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list() | tuple():
            for item in value:
                yield from _texts(item)


def to_undo(execution: Execution, draft: Draft) -> tuple[str, ...]:
    """Everything registered and not yet asked for, the last one first."""
    known = [*execution.side_work.saga.registered] if execution.side_work.saga is not None else []
    # A step whose own arc asks for compensation is registered in this very decision, so that the state does not have
    # it yet.
    known += [one.payload.registration_id for one in draft.events if isinstance(one.payload, CompensationRegistered)]
    return tuple(reversed(known))


def request_compensation(draft: Draft, execution: Execution, cause: str, **about: Any) -> bool:
    """Ask that everything registered is undone. Whether there is something to wait for."""
    todo = to_undo(execution, draft)
    if todo:
        draft.add(CompensationRequested(cause=cause, registrations=todo), **about)
    # What an earlier request has begun has to end before the execution may.
    return bool(todo) or (execution.side_work.saga is not None and execution.side_work.saga.is_busy)


def compensate(execution: Execution, at: float) -> Decision:
    """Hand out the next thing to undo."""
    saga = execution.side_work.saga
    assert saga is not None
    registration = next(iter(saga.todo.values()))
    # One after another: the next is handed out when this one has ended, since what was done last may rest on what was
    # done before.
    run_id = derived("compensation", execution.execution_id, registration.registration_id)
    draft = Draft(execution, at, run_id)
    order_id = order_id_of(run_id)
    started = CompensationStarted(registration_id=registration.registration_id, order_id=order_id)
    draft.add(started, step=registration.step, step_run_id=run_id, parent_id=execution.last_event_id)
    draft.add_effect(DispatchStep(order_id, run_id, pool=registration.pool))
    return draft.decision()


def before_the_end(plan: Plan, execution: Execution, at: float) -> Decision | None:
    """What is still to be done in an execution without tokens; None when nothing is, and it may end."""
    saga = execution.side_work.saga
    if execution.side_work.step_runs or (saga is not None and saga.is_busy):
        return Decision()  # somebody is at it, or it is paused
    # A cancellation has said itself whether to compensate; `auto_compensate` is about failures.
    if execution.lifecycle.cancelled is not None:
        return end_jobs(plan, execution, at)
    if not plan.net.executor.auto_compensate or execution.lifecycle.error is None:
        return None
    # None where nothing is registered: then the execution ends in the same decision.
    draft = Draft(execution, at, derived("auto", execution.execution_id, execution.seq))
    return (
        draft.decision() if request_compensation(draft, execution, "auto", parent_id=execution.last_event_id) else None
    )


# Jobs left behind: what steps have submitted elsewhere ends with an execution that is cancelled (SRV-11).
#
# One that fails leaves its jobs running: they cost their owner what they cost, and who runs it again asks for them.
#
# A step that only submits is over while its job goes on. What is recorded is all that is known of it: the step's result
# names the job, and so does that of a later one that asked what became of it. A job that may still run is undone like
# anything else, by a compensation of the step that submitted it, unless the author's own has done so.


def end_jobs(plan: Plan, execution: Execution, at: float) -> Decision | None:
    """Ask that the jobs end which it leaves behind; None when there are none."""
    draft = Draft(execution, at, derived("jobs", execution.execution_id, execution.seq))
    parent_id, asked = execution.last_event_id, []
    for job_id, name in open_jobs(plan, execution).items():
        task = submitting_task(plan.step(name))
        assert task is not None  # open_jobs names the steps that submit
        asked.append(derived("registration", execution.execution_id, task.kind, job_id))
        registered = CompensationRegistered(
            registration_id=asked[-1],
            owner=execution.execution_id,
            step=name,
            task=task.kind,
            ctx=_credential_ctx(task, execution.ctx),
            idempotent=True,
            job_id=job_id,
            pool=_pool(plan, execution, plan.step(name), at),
        )
        draft.add(registered, step=name, event_id=asked[-1], parent_id=parent_id)
    if not asked:
        return None
    draft.add(CompensationRequested(cause="end", registrations=tuple(asked)), parent_id=parent_id)
    if execution.lifecycle.paused:  # else they would go on, and so would it, until somebody resumes it
        draft.add(PlaybookResumed(reason="the jobs that it leaves behind are cancelled"), parent_id=parent_id)
    return draft.decision()


def open_jobs(plan: Plan, execution: Execution) -> dict[str, str]:
    """The jobs that were submitted and may still run, as far as it is known, with the step that submitted each. One
    that was only asked about is somebody else's."""
    found: dict[str, str] = {}
    # Steps that only ask about a job have the kind of the one that submitted it: they know that it is over.
    kinds = {task.kind for step in plan.net.transitions for task in pipeline_of(step) if task.submits_job}
    over = set(execution.side_work.saga.jobs) if execution.side_work.saga is not None else set()
    for name, result in execution.outputs.results.items():
        step = plan.step(name)
        if not any(task.kind in kinds for task in pipeline_of(step)):
            continue
        for job_id, state in _jobs_in(result):
            if state not in _OPEN:
                over.add(job_id)
            elif submitting_task(step) is not None and not _is_undone(execution, step):
                found[job_id] = name
    return {job_id: name for job_id, name in found.items() if job_id not in over}


def _is_undone(execution: Execution, step: Transition) -> bool:
    """Whether the author's own compensation of the step has been asked for."""
    known = execution.side_work.saga.registered.values() if execution.side_work.saga is not None else ()
    return step.compensation is not None and not any(one.step == step.name for one in known)


def _jobs_in(result: TaskResult) -> Iterator[tuple[str, Any]]:
    """The jobs in the result of a step, or of a loop's iterations, each with its state."""
    # Of a result that is stored apart, the small fields that stay in the event: the engine cannot wait for the rest.
    value = result.inline if result.ref is not None else result.result
    for one in value if isinstance(value, list) else (value,):
        if isinstance(one, dict) and isinstance(one.get("job_id"), str):
            yield one["job_id"], one.get("state")


def _credential_ctx(task: Task, ctx: dict[str, Any]) -> dict[str, Any]:
    """The part of ctx that names the credential which the job is cancelled with."""
    words = re.findall(r"\w+", str(credential_input(task)))
    return {key: ctx[key] for key in words if key in ctx}


def _pool(plan: Plan, execution: Execution, step: Transition, at: float) -> str | None:
    try:
        return pool_of(plan, step, Scope({"workload": execution.origin.workload, "ctx": execution.ctx}), at)
    except TemplateError:
        return None  # it followed from what its token had with it
