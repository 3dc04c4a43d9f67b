"""Commands: the requests of the control plane to the engine. Each carries the time, since the engine reads no clock.
Also `Start`, a request to begin an execution."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from noetl.events.control import StepRate
from noetl.events.executions import RerunState, Starter
from noetl.events.orders import Report
from noetl.events.outcomes import Error
from noetl.events.side_runs import CompensationRegistered
from noetl.net.net import Net


class ExecutionStart(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution begins."""

    payload: dict[str, Any] = {}
    # Of a nested execution: its parent.
    parent_execution_id: str | None = None
    parent_step_run_id: str | None = None
    depth: int = 0  # how many playbooks are around a nested one (TOOL-11)
    paused: bool = False  # it begins paused: its parent is, or `held` has another reason
    held: str | None = None  # why it begins paused, if not because of its parent
    # Why it ends at once as failed: its keychain did not resolve, or a limit drops it (KEY-02).
    refused: Error | None = None
    # The execution that this one undoes, by running that one's registrations (design.md §8), and nothing else.
    compensates: str | None = None
    registrations: tuple[CompensationRegistered, ...] = ()
    # Of a rerun: the step it begins at, and the state that an earlier run had there.
    carried: RerunState | None = None
    starter: Starter | None = None  # who or what asked for it


class StartExecution(ExecutionStart, frozen=True, kw_only=True):
    """Begin an execution whose playbook is loaded and checked and whose keychain is resolved (SRV-01).
    `late_after_s` are expected durations that rules of the installation set, besides the playbook's own."""

    at: float
    net_hash: str
    late_after_s: tuple[float, ...] = ()


class ClaimOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A worker claims an order. `seen_epoch` is the epoch of the expired lease, 0 for an order that had none."""

    at: float
    order_id: str
    worker_id: str
    seen_epoch: int = 0


class LoseOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Give up an order: too many workers were lost while they ran it. `seen_epoch` is the epoch of its last lease."""

    at: float
    order_id: str
    seen_epoch: int


class RecordReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A worker reports what happened to an order that it claimed."""

    at: float
    report: Report


class PauseExecution(msgspec.Struct, frozen=True, kw_only=True):
    """Dispatch nothing new; running tasks may end (SRV-07)."""

    at: float
    reason: str | None = None
    actor: str | None = None


class ResumeExecution(msgspec.Struct, frozen=True, kw_only=True):
    at: float
    reason: str | None = None
    actor: str | None = None


class CancelExecution(msgspec.Struct, frozen=True, kw_only=True):
    """Stop everything and end as cancelled (SRV-11). With `compensate` finished steps are undone first (O-02)."""

    at: float
    reason: str = "on request"
    compensate: bool = False
    actor: str | None = None


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """Fire everything that is due by now (TMR-06)."""

    at: float


class DeliverMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that ends one open wait (MSG-01). A paused execution accepts none (O-16)."""

    at: float
    wait_id: str
    message_id: str
    name: str
    correlation: dict[str, Any] = {}
    payload: Any = None
    sent_at: float | None = None


class DeliverSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A broadcast to all waits for this signal and all listening rules of the execution (MSG-05)."""

    at: float
    signal_id: str
    name: str
    data: Any = None


class InjectEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event from outside, for rules and handlers that listen (MSG-06). The same `event_key` counts once."""

    at: float
    name: str
    data: Any = None
    event_key: str | None = None


class CancelTimer(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel a running timer. `timer_id` is its id in the playbook, or its wait id (TMR-04)."""

    at: float
    timer_id: str
    actor: str


class ChangeLimit(msgspec.Struct, frozen=True, kw_only=True):
    """Change how many runs of a step may be active at once (`limit`), or start within a time (`rate`).

    None restores the value of the playbook; a field that is left unset stays as it is."""

    at: float
    step: str
    limit: int | msgspec.UnsetType | None = msgspec.UNSET
    rate: StepRate | msgspec.UnsetType | None = msgspec.UNSET
    actor: str | None = None
    reason: str | None = None


class TaskAction(StrEnum):
    """An action of a person on a human task."""

    CLAIM = "claim"
    RELEASE = "release"
    COMPLETE = "complete"
    COMMENT = "comment"


class ActOnTask(msgspec.Struct, frozen=True, kw_only=True):
    """A person does something with a human task (HUM-02)."""

    at: float
    task_id: str
    action: TaskAction
    actor: str
    roles: tuple[str, ...] = ()  # the roles of the person as the server knows them; the request cannot set them
    is_admin: bool = False  # an administrator, who may release what another person has claimed
    values: dict[str, Any] = {}  # the form values, to complete the task
    version: int | None = None  # the version of the task that the person has seen; None accepts any
    text: str = ""  # a comment, alone or with the values that complete the task


class Proceed(msgspec.Struct, frozen=True, kw_only=True):
    """Do the next thing that the state itself asks for. `fires`: timers that are due fire, too."""

    at: float
    fires: bool = True


Outside = DeliverMessage | DeliverSignal | InjectEvent | CancelTimer | ChangeLimit | ActOnTask
Command = (
    StartExecution
    | ClaimOrder
    | LoseOrder
    | RecordReport
    | PauseExecution
    | ResumeExecution
    | CancelExecution
    | Wake
    | Outside
    | Proceed
)


# Starts: what the control plane knows of an execution before it begins.


class Start(ExecutionStart, frozen=True, kw_only=True):
    """A request to begin an execution, with its net."""

    net: Net
    execution_id: str
    trace_id: str

    def command(self, at: float, net_hash: str, late_after_s: tuple[float, ...] = ()) -> StartExecution:
        shared = {name: getattr(self, name) for name in ExecutionStart.__struct_fields__}
        return StartExecution(at=at, net_hash=net_hash, late_after_s=late_after_s, **shared)
