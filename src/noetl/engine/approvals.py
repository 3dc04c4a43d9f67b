"""Approvals: the human tasks that a new run relies on when it begins at a step after them (HUM-05).

A person has approved what that person saw: one version of the playbook with one payload. A new run with the same two
relies on the recorded approval. With others it needs the consent of somebody whom each of the tasks is for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from noetl.base.errors import ForbiddenError, RefusedError
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested
from noetl.events.rerun_state import Approval
from noetl.events.waits import HumanCreated, HumanEscalated, TaskCompleted

# the types of the events that `approvals_in` reads
APPROVAL_EVENTS = ("playbook.execution_requested", "human.created", "human.escalated", "task.completed")


class Consent(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for the new run. `approves`: this person approves anew what others have approved for other inputs."""

    actor: str
    roles: Collection[str] = ()
    approves: bool = False

    def covers(self, approval: Approval) -> bool:
        if approval.user is not None:
            return approval.user == self.actor
        return approval.role is None or approval.role in self.roles


class ApprovedInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a person sees the consequences of: the playbook, by the hash of its net, and the payload."""

    net_hash: str
    payload: dict[str, Any]

    def equals(self, other: ApprovedInputs) -> bool:
        # Compared as text: in Python 1 equals true and 1.0, and a template tells them apart.
        return self.net_hash == other.net_hash and _text(self.payload) == _text(other.payload)


def _text(payload: dict[str, Any]) -> bytes:
    return msgspec.json.encode(payload, order="sorted")


def approvals_in(events: Iterable[Event]) -> tuple[Approval, ...]:
    """The human tasks that were completed in these events of one execution, and those it had taken over itself."""
    found: list[Approval] = []
    open_tasks: dict[str, Approval] = {}
    for event in events:
        match event.payload:
            case ExecutionRequested(carried=carried) if carried is not None:
                found.extend(carried.approvals)
            case HumanCreated() as task:
                open_tasks[task.task_id] = Approval(
                    step=event.step or "", title=task.title, role=task.role, user=task.user, completed_by=""
                )
            case HumanEscalated(mode="reassign") as moved:
                task_before = open_tasks[moved.task_id]
                open_tasks[moved.task_id] = msgspec.structs.replace(task_before, role=moved.role, user=moved.user)
            case TaskCompleted() as done:
                found.append(msgspec.structs.replace(open_tasks[done.task_id], completed_by=done.actor))
    return tuple(found)


def reused_approvals(
    approvals: tuple[Approval, ...], before: ApprovedInputs, now: ApprovedInputs, consent: Consent
) -> tuple[Approval, ...]:
    """The approvals as the new run records them. RefusedError names the first that does not hold for the new inputs;
    ForbiddenError says whom it is for."""
    if not approvals or before.equals(now):
        return approvals
    if not consent.approves:
        raise RefusedError(_refusal(approvals[0]))
    for approval in approvals:
        if not consent.covers(approval):
            raise ForbiddenError(
                f'the human task "{approval.title}" is for {_approver(approval)}, who alone can approve it'
            )
    return tuple(msgspec.structs.replace(approval, approved_by=consent.actor) for approval in approvals)


def _refusal(approval: Approval) -> str:
    return (
        f'the human task "{approval.title}" of step "{approval.step}" was completed with other inputs: begin at step '
        f'"{approval.step}" or before it, or let {_approver(approval)} run it and approve the new inputs (--approve)'
    )


def _approver(approval: Approval) -> str:
    if approval.user is not None:
        return f"user {approval.user}"
    return f"a holder of role {approval.role}" if approval.role is not None else "anybody"
