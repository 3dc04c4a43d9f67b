"""Compensation: the work of finished steps is undone, last step first, one at a time (SAGA-01 to SAGA-04).

A step that succeeds registers its compensation together with everything the compensation reads. An arc, the end of a
failed execution or a cancellation requests it; each registration is used once. A nested playbook is undone by the
registrations of its own steps, in a new child execution (design.md §8). Jobs that a cancelled execution leaves running
at a provider are cancelled the same way.
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
from noetl.net.net import Compensation, Transition, pipeline_of, submitting_task
from noetl.net.task import Task, credential_input
from noetl.templates.scope import Scope

_NO_SUCCESS = frozenset({"step.interrupted", "step.timeout"})  # ends that have no error and are no success either
_READS_ALL = re.compile(r"\b(?:ctx|vars)\b(?!\s*\.\s*\w)")  # `ctx` as a whole, or a computed key of it
_OPEN_JOB_STATES = frozenset({"QUEUED", "RUNNING"})  # QNT-02


def register_compensation(
    draft: Draft, execution: Execution, run: StepRun, step: Transition, ctx: dict[str, Any]
) -> None:
    """Register how a successful step run is undone, with `ctx` as the step left it. Iterations of a loop register
    themselves when they end."""
    ended = run.ended
    # A compensation undoes a finished step, so a step that failed registers none.
    if ended is None or ended.error is not None or ended.name in _NO_SUCCESS or step.loop is not None:
        return
    if step.compensation is not None or run.progress.children:
        parts = {"args": run.token.args, "result": ended.result or TaskResult(), "iter": run.progress.position.iter}
        _add_registrations(draft, execution, run, step, run.progress.children, parts, ctx)


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
    """Register how a successful iteration is undone, even if its loop fails later (SAGA-04). `ctx` is what the
    iteration saw last."""
    around = tuple(Surrounding(iterator=level.iterator, index=level.index, item=level.item) for level in outer)
    path = tuple(level.index for level in outer)
    parts = {"args": run.token.args, "result": result, "iter": iter_, "path": path, "around": around}
    _add_registrations(draft, execution, run, step, children, parts, ctx)


def _add_registrations(
    draft: Draft,
    execution: Execution,
    run: StepRun,
    step: Transition,
    children: tuple[str, ...],
    parts: dict[str, Any],
    ctx: dict[str, Any],
) -> None:
    """Register the step's own compensation, or else those of the playbooks it called."""
    # Never both: the author of the step knows what its playbooks did, and nothing must be undone twice.
    if step.compensation is not None:
        _register_own(draft, execution, run, step.compensation, parts, ctx)
    else:
        _register_children(draft, run, children, parts.get("path", ()))


def _register_own(
    draft: Draft,
    execution: Execution,
    run: StepRun,
    compensation: Compensation,
    parts: dict[str, Any],
    ctx: dict[str, Any],
) -> None:
    # Derived, and also the id of the event: a decision that is repeated registers the compensation once.
    registration_id = derived("registration", run.step_run_id, *parts.get("path", ()))
    registration = CompensationRegistered(
        registration_id=registration_id,
        owner=run.step_run_id,
        step=run.step,
        task=compensation.tasks[0].name,
        idempotent=compensation.idempotent,
        pool=run.lease.pool,
        **_captured_state(execution, ctx, compensation.tasks),
        **parts,
    )
    draft.add(registration, run=run, event_id=registration_id)


def _register_children(draft: Draft, run: StepRun, children: tuple[str, ...], path: tuple[int, ...]) -> None:
    """Register the nested executions that the step has called; each is undone by its own registrations."""
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


def _captured_state(execution: Execution, ctx: dict[str, Any], tasks: Any) -> dict[str, Any]:
    """The current values of `ctx` and of step results that the text of `tasks` names."""
    text = " ".join(_texts(msgspec.to_builtins(tasks)))
    # All words, not only parsed references: the code of a task may read names too. A value too many only costs space.
    words = frozenset(re.findall(r"\w+", text))
    whole = _READS_ALL.search(text) is not None
    results = {name: result for name, result in execution.outputs.results.items() if name in words}
    return {"ctx": {key: value for key, value in ctx.items() if whole or key in words}, "results": results}


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


def pending_registrations(execution: Execution, draft: Draft) -> tuple[str, ...]:
    """The registrations that no request has used yet, the last one first."""
    known = [*execution.side_work.saga.registered] if execution.side_work.saga is not None else []
    # A step whose own arc requests compensation registers in this very decision, so the state does not have it yet.
    known += [one.payload.registration_id for one in draft.events if isinstance(one.payload, CompensationRegistered)]
    return tuple(reversed(known))


def request_compensation(draft: Draft, execution: Execution, cause: str, **about: Any) -> bool:
    """Request that everything registered is undone. Returns whether there is anything to wait for."""
    todo = pending_registrations(execution, draft)
    if todo:
        draft.add(CompensationRequested(cause=cause, registrations=todo), **about)
    # Compensations of an earlier request must end too before the execution may.
    return bool(todo) or (execution.side_work.saga is not None and execution.side_work.saga.is_busy)


def start_next_compensation(execution: Execution, at: float) -> Decision:
    """Dispatch the next compensation."""
    saga = execution.side_work.saga
    assert saga is not None
    registration = next(iter(saga.todo.values()))
    # One at a time: a later step may depend on what an earlier one did, so its compensation must end first.
    run_id = derived("compensation", execution.execution_id, registration.registration_id)
    draft = Draft(execution, at, run_id)
    order_id = order_id_of(run_id)
    started = CompensationStarted(registration_id=registration.registration_id, order_id=order_id)
    draft.add(started, step=registration.step, step_run_id=run_id, parent_id=execution.log.last_event_id)
    draft.add_effect(DispatchStep(order_id, run_id, pool=registration.pool))
    return draft.decision()


def work_before_end(plan: Plan, execution: Execution, at: float) -> Decision | None:
    """The remaining work of an execution without tokens; None when it may end."""
    saga = execution.side_work.saga
    if execution.side_work.step_runs or (saga is not None and saga.is_busy):
        return Decision()  # a worker runs it, or the execution is paused
    # The cancel command says whether to compensate; `auto_compensate` only concerns failures.
    if execution.lifecycle.cancelled is not None:
        return cancel_open_jobs(plan, execution, at)
    if not plan.net.executor.auto_compensate or execution.lifecycle.error is None:
        return None
    # None where nothing is registered: then the execution ends at once.
    log = execution.log
    draft = Draft(execution, at, derived("auto", execution.execution_id, log.seq))
    return draft.decision() if request_compensation(draft, execution, "auto", parent_id=log.last_event_id) else None


# Jobs at providers: a cancelled execution cancels the jobs that its steps have submitted (SRV-11). A failed execution
# leaves them running, since a rerun may ask for their results.
#
# A step that only submits a job ends while the job runs. Results are all that the engine knows of it: the result of the
# submitting step names the job, and so does that of a later step that polled it. A job that may still run is cancelled
# by a compensation of the submitting step, unless the author's own compensation was requested.


def cancel_open_jobs(plan: Plan, execution: Execution, at: float) -> Decision | None:
    """Request the cancellation of jobs that may still run; None when there are none."""
    draft = Draft(execution, at, derived("jobs", execution.execution_id, execution.log.seq))
    parent_id, registration_ids = execution.log.last_event_id, []
    for job_id, name in open_jobs(plan, execution).items():
        task = submitting_task(plan.step(name))
        assert task is not None  # open_jobs names the steps that submit
        registration_ids.append(derived("registration", execution.execution_id, task.kind, job_id))
        registered = CompensationRegistered(
            registration_id=registration_ids[-1],
            owner=execution.execution_id,
            step=name,
            task=task.kind,
            ctx=_credential_ctx(task, execution.variables.ctx),
            idempotent=True,
            job_id=job_id,
            pool=_pool(plan, execution, plan.step(name), at),
        )
        draft.add(registered, step=name, event_id=registration_ids[-1], parent_id=parent_id)
    if not registration_ids:
        return None
    draft.add(CompensationRequested(cause="end", registrations=tuple(registration_ids)), parent_id=parent_id)
    # A paused execution starts no compensation, so without this the jobs would run until it is resumed.
    if execution.lifecycle.paused:
        draft.add(PlaybookResumed(reason="the jobs that it leaves behind are cancelled"), parent_id=parent_id)
    return draft.decision()


def open_jobs(plan: Plan, execution: Execution) -> dict[str, str]:
    """The jobs that this execution submitted and that may still run, each with its submitting step. A job that was only
    polled belongs to another execution."""
    submitted: dict[str, str] = {}
    # A step that polls a job has the kind of the one that submitted it, and its result may say that the job is over.
    kinds = {task.kind for step in plan.net.transitions for task in pipeline_of(step) if task.submits_job}
    over = set(execution.side_work.saga.jobs) if execution.side_work.saga is not None else set()
    for name, result in execution.outputs.results.items():
        step = plan.step(name)
        if not any(task.kind in kinds for task in pipeline_of(step)):
            continue
        for job_id, state in _jobs_in(result):
            if state not in _OPEN_JOB_STATES:
                over.add(job_id)
            elif submitting_task(step) is not None and not _was_compensated(execution, step):
                submitted[job_id] = name
    return {job_id: name for job_id, name in submitted.items() if job_id not in over}


def _was_compensated(execution: Execution, step: Transition) -> bool:
    """Whether the author's own compensation of the step was requested."""
    known = execution.side_work.saga.registered.values() if execution.side_work.saga is not None else ()
    return step.compensation is not None and not any(one.step == step.name for one in known)


def _jobs_in(result: TaskResult) -> Iterator[tuple[str, Any]]:
    """The jobs in the result of a step, or of a loop's iterations, each with its state."""
    # Of a stored result only the fields inside the event: the engine cannot wait for the others.
    value = result.inline if result.ref is not None else result.result
    for job in value if isinstance(value, list) else (value,):
        if isinstance(job, dict) and isinstance(job.get("job_id"), str):
            yield job["job_id"], job.get("state")


def _credential_ctx(task: Task, ctx: dict[str, Any]) -> dict[str, Any]:
    """The part of `ctx` that the name of the job's credential reads."""
    words = re.findall(r"\w+", str(credential_input(task)))
    return {key: ctx[key] for key in words if key in ctx}


def _pool(plan: Plan, execution: Execution, step: Transition, at: float) -> str | None:
    try:
        return pool_of(plan, step, Scope({"workload": execution.origin.workload, "ctx": execution.variables.ctx}), at)
    except TemplateError:
        return None  # the pool's name was computed from the token's args, which are gone
