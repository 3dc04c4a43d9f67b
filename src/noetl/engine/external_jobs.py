"""Jobs left behind: what steps have submitted elsewhere ends with an execution that is cancelled (SRV-11).

One that fails leaves its jobs running: they cost their owner what they cost, and who runs it again asks for them.

A step that only submits is over while its job goes on. What is recorded is all that is known of it: the step's result
names the job, and so does that of a later one that asked what became of it. A job that may still run is undone like
anything else, by a compensation of the step that submitted it, unless the author's own has done so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from noetl.base.errors import TemplateError
from noetl.base.ids import derived
from noetl.engine.admission import pool_of
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution
from noetl.engine.plan import Plan
from noetl.events.compensation import CompensationRegistered, CompensationRequested
from noetl.events.control import PlaybookResumed
from noetl.events.outcomes import TaskResult
from noetl.net.net import Transition
from noetl.net.task import Task
from noetl.net.tasks import credential_input, pipeline_of, submitting_task
from noetl.templates.scope import Scope

_OPEN = frozenset({"QUEUED", "RUNNING"})  # QNT-02


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
