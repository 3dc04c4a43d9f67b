"""The state that a rerun from a step takes over from an earlier run. Also the approvals that it relies on.

One token goes to the step, with the arguments it last came with, and sees the variables and results that were there
then. Other tokens that were alive at that moment, open waits, compensations and counts of runs stay with the old run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from noetl.base.errors import ForbiddenError, NoRerunError, RefusedError
from noetl.engine.evolve import replay
from noetl.engine.execution import Execution
from noetl.events.envelope import Event
from noetl.events.executions import Approval, CarriedResult, ExecutionRequested, KeptIterations, RerunState
from noetl.events.loops import IterationDone, LoopCut, LoopDone, LoopKept, LoopStarted
from noetl.events.steps import CaseStarted, StepFailed, StepScheduled
from noetl.events.tasks import TaskProcessed
from noetl.events.waits import HumanCreated, HumanEscalated, TaskCompleted
from noetl.net.net import Net
from noetl.templates.scope import V2_CASE

# the types of the events that `approvals_in` reads
APPROVAL_EVENTS = ("playbook.execution_requested", "human.created", "human.escalated", "task.completed")


def rerun_problem(net: Net, step: str) -> str | None:
    """Why a run of `net` cannot begin at `step`, None where it can."""
    known = {one.name: one for one in net.transitions}
    if step not in known:
        return f'this version has no step "{step[:200]}"; its steps are {", ".join(list(known)[:20])}'
    if known[step].join is not None:
        return f'step "{step}" joins tokens, and one alone does not; begin at a step before it'
    return None


def seq_before_entry(events: list[Event], step: str) -> int | None:
    """The number of the event before the last entry of `step`; None where it was never entered."""
    for event in reversed(events):
        if event.step == step and isinstance(event.payload, StepScheduled):
            return event.seq - 1
    return None


def rerun_state(execution_id: str, trace_id: str, events: list[Event], net: Net, step: str) -> RerunState | None:
    """The state to take over, None if `step` was never entered. `events` are restored, `net` is that of the new run:
    results of steps it does not have are dropped."""
    at = seq_before_entry(events, step)
    if at is None:
        return None
    entered = events[at].payload
    assert isinstance(entered, StepScheduled), "it was found by that"
    before = replay(execution_id, trace_id, events[:at])
    return RerunState(
        execution_id=execution_id,
        step=step,
        at=at,
        args=before.tokens[entered.token_id].args,
        ctx=before.variables.ctx,
        results=_results(before, net),
    )


def _results(before: Execution, net: Net) -> tuple[CarriedResult, ...]:
    known = {one.name for one in net.transitions}
    return tuple(
        CarriedResult(step=name, result=result) for name, result in before.outputs.results.items() if name in known
    )


# What a run of the failed items of a loop keeps from an earlier run: the results of those that were done (CLI-04). Only
# results are kept. A loop whose iterations also change variables or the loop itself cannot be rerun by items; the
# refusal says so and names the alternative.
def kept_iterations(events: list[Event], net: Net, step: str, at: int) -> tuple[KeptIterations, int]:
    """Those of the step run that was scheduled after event `at`, and the number of the last event they rely on.
    NoRerunError says why there are none to keep."""
    if (why := _loop_rerun_problem(net, step)) is not None:
        raise NoRerunError(f"{why}; run the whole step again, with --from {step} and without --failed-items")
    run_id = events[at].step_run_id
    own = [event for event in events[at:] if event.step_run_id == run_id]
    opened = next((event.payload for event in own if isinstance(event.payload, LoopStarted)), None)
    if opened is None:
        raise NoRerunError(f'the loop of step "{step}" never began')
    if not any(isinstance(event.payload, LoopDone | StepFailed) for event in own):
        raise NoRerunError(f'the loop of step "{step}" has not ended')
    if (why := next((why for event in own if (why := _side_effect_of(event)) is not None), None)) is not None:
        raise NoRerunError(f'{why}; run the whole step again, with --from "{step}" and without --failed-items')
    done, last = _done_iterations(own)
    if len(done) == opened.total:
        raise NoRerunError(f'no item of the loop of step "{step}" has failed: there is nothing to run')
    kept = KeptIterations(
        step=step,
        items=opened.items,
        items_ref=opened.items_ref,
        indices=tuple(sorted(done)),
        results=[done[index] for index in sorted(done)],
    )
    return kept, max(last, at)


def _loop_rerun_problem(net: Net, step: str) -> str | None:
    """The reason why the new version cannot take over the loop."""
    loop = next(one for one in net.transitions if one.name == step).loop
    if loop is None:
        return f'step "{step}" has no loop'
    if net.dialect == V2_CASE:
        return f'the loop of step "{step}" follows case rules, whose iterations keep a state of their own'
    if loop.inner is not None:
        return f'the loop of step "{step}" has another one inside it'
    if loop.reducers:
        return f'the loop of step "{step}" reduces what its iterations give'
    if loop.extend or loop.complete_when is not None:
        return f'iterations of step "{step}" change which items there are, or end the loop early'
    return None


def _side_effect_of(event: Event) -> str | None:
    match event.payload:
        case TaskProcessed(decision=decision) if decision.set_ctx or decision.set_vars or decision.set_shared:
            return f'iterations of step "{event.step}" write variables, which no result brings back'
        case CaseStarted() | LoopCut():
            return f'the loop of step "{event.step}" ended early, or by rules of its own'
        case LoopStarted(path=path) if path:
            return f'the loop of step "{event.step}" had another one inside it'
        case _:
            return None


def _done_iterations(own: list[Event]) -> tuple[dict[int, object], int]:
    """The results of iterations that are done, as plain data, and the last event that tells one."""

    done: dict[int, object] = {}
    last = 0
    for event in own:
        payload = event.payload
        if isinstance(payload, IterationDone) and len(payload.path) == 1:
            done[payload.index] = msgspec.to_builtins(payload.result)
            last = event.seq
        elif isinstance(payload, LoopKept):
            done.update(zip(payload.indices, payload.results, strict=True))
            last = event.seq
    return done, last


# Approvals: the human tasks that a new run relies on when it begins at a step after them (HUM-05).
#
# A person has approved what that person saw: one version of the playbook with one payload. A new run with the same two
# relies on the recorded approval. With others it needs the consent of a user to whom each of the tasks is assigned.


NOBODY = ""  # as a user: no token has it


class Consent(msgspec.Struct, frozen=True, kw_only=True):
    """The user who requests the new run. `approves`: this user approves again what was approved for other inputs."""

    actor: str
    roles: Collection[str] = ()
    approves: bool = False

    def covers(self, approval: Approval) -> bool:
        if approval.user is not None:
            return approval.user == self.actor
        return approval.role is None or approval.role in self.roles


class ApprovedInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs that an approval depends on: the playbook, by the hash of its net, and the payload."""

    net_hash: str
    payload: dict[str, Any]

    def equals(self, other: ApprovedInputs) -> bool:
        # Compared as text: in Python 1 equals true and 1.0, and a template tells them apart.
        return self.net_hash == other.net_hash and _text(self.payload) == _text(other.payload)


def _text(payload: dict[str, Any]) -> bytes:
    return msgspec.json.encode(payload, order="sorted")


def approvals_in(events: Iterable[Event]) -> tuple[Approval, ...]:
    """The human tasks that were completed in these events of one execution, and those it had taken over itself."""
    approvals: list[Approval] = []
    open_tasks: dict[str, Approval] = {}
    for event in events:
        match event.payload:
            case ExecutionRequested(carried=carried) if carried is not None:
                approvals.extend(carried.approvals)
            case HumanCreated() as task:
                open_tasks[task.task_id] = Approval(
                    step=event.step or "", title=task.title, role=task.role, user=task.user, completed_by=""
                )
            case HumanEscalated(mode="reassign") as moved:
                task_before = open_tasks[moved.task_id]
                open_tasks[moved.task_id] = msgspec.structs.replace(task_before, role=moved.role, user=moved.user)
            case TaskCompleted() as done:
                approvals.append(msgspec.structs.replace(open_tasks[done.task_id], completed_by=done.actor))
    return tuple(approvals)


def reused_approvals(
    approvals: tuple[Approval, ...], before: ApprovedInputs, now: ApprovedInputs, consent: Consent
) -> tuple[Approval, ...]:
    """The approvals as the new run records them. RefusedError names the first that does not hold for the new inputs;
    ForbiddenError says whom it is for."""
    if not approvals or before.equals(now):
        return approvals
    if lost := [approval for approval in approvals if approval.user == NOBODY]:
        raise RefusedError(_refusal(lost[0]))
    if not consent.approves:
        raise RefusedError(_refusal(approvals[0]))
    for approval in approvals:
        if not consent.covers(approval):
            raise ForbiddenError(
                f'the human task "{approval.title}" is for {_approver(approval)}, who alone can approve it'
            )
    return tuple(msgspec.structs.replace(approval, approved_by=consent.actor) for approval in approvals)


def lost_approval(step: str, execution_id: str) -> Approval:
    """What may have been approved in a nested execution that is deleted: nobody knows, and nobody can approve it."""
    title = f"the nested execution {execution_id}"
    return Approval(step=step, title=title, role=None, user=NOBODY, completed_by=NOBODY)


def _refusal(approval: Approval) -> str:
    if approval.user == NOBODY:
        return (
            f'{approval.title} of step "{approval.step}" was deleted, and nobody knows which human tasks were '
            f'completed in it: other inputs need a run that begins at step "{approval.step}" or before it'
        )
    return (
        f'the human task "{approval.title}" of step "{approval.step}" was completed with other inputs: begin at step '
        f'"{approval.step}" or before it, or let {_approver(approval)} run it and approve the new inputs (--approve)'
    )


def _approver(approval: Approval) -> str:
    if approval.user is not None:
        return f"user {approval.user}"
    return f"a holder of the human role {approval.role}" if approval.role is not None else "anybody"
