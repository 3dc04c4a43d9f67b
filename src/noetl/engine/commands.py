"""Commands: what somebody asks of the engine. Each carries the time, since the engine reads no clock. Also what is
known of an execution that is to begin."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from noetl.events.control import StepRate
from noetl.events.executions import RerunState
from noetl.events.orders import Report
from noetl.events.outcomes import Error
from noetl.events.side_runs import CompensationRegistered
from noetl.net.net import Net


class ExecutionStart(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution begins."""

    payload: dict[str, Any] = {}
    # Of a nested one: whose child it is.
    parent_execution_id: str | None = None
    parent_step_run_id: str | None = None
    depth: int = 0  # how many playbooks are around a nested one (TOOL-11)
    paused: bool = False  # as its parent is, or because it is `held`
    held: str | None = None  # why it begins paused, where that is no word of its parent
    # Its keychain did not resolve, or a limit drops it: it ends where it begins (KEY-02).
    refused: Error | None = None
    # The execution that this one undoes, by what that one had registered (design.md §8), and nothing else.
    compensates: str | None = None
    registrations: tuple[CompensationRegistered, ...] = ()
    # It begins at a step, with what an earlier run had there.
    carried: RerunState | None = None


class StartExecution(ExecutionStart, frozen=True, kw_only=True):
    """Begin: the playbook is already loaded, checked and its keychain resolved (SRV-01). `late_after_s`: expected
    durations of rules of the installation, besides the playbook's own."""

    at: float
    net_hash: str
    late_after_s: tuple[float, ...] = ()


class ClaimOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A worker takes an order. `seen_epoch` is the lease the shell found ended, 0 for an order never leased."""

    at: float
    order_id: str
    worker_id: str
    seen_epoch: int = 0


class LoseOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody is to run this order any more: too many workers were lost with it. `seen_epoch` is its last lease."""

    at: float
    order_id: str
    seen_epoch: int


class RecordReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    at: float
    report: Report


class PauseExecution(msgspec.Struct, frozen=True, kw_only=True):
    """Dispatch nothing new; what runs may end (SRV-07)."""

    at: float
    reason: str | None = None


class ResumeExecution(msgspec.Struct, frozen=True, kw_only=True):
    at: float
    reason: str | None = None


class CancelExecution(msgspec.Struct, frozen=True, kw_only=True):
    """Stop everything and end as cancelled (SRV-11); with `compensate` what was done is undone first (O-02)."""

    at: float
    reason: str = "asked for"
    compensate: bool = False


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """Its moment has come: whatever is due by now fires (TMR-06)."""

    at: float


class DeliverMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message for one open wait, which it satisfies (MSG-01). A paused execution takes none (O-16)."""

    at: float
    wait_id: str
    message_id: str
    name: str
    correlation: dict[str, Any] = {}
    payload: Any = None


class DeliverSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A broadcast, for everybody in this execution who waits for it or listens (MSG-05)."""

    at: float
    signal_id: str
    name: str
    data: Any = None


class InjectEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of somebody outside, for rules and handlers that listen (MSG-06). The same `event_key` counts once."""

    at: float
    name: str
    data: Any = None
    event_key: str | None = None


class CancelTimer(msgspec.Struct, frozen=True, kw_only=True):
    """`timer_id` is the author's word for the timer, or its wait id (TMR-04)."""

    at: float
    timer_id: str
    actor: str


class ChangeLimit(msgspec.Struct, frozen=True, kw_only=True):
    """So many runs of a step go on at once, or begin in a time, from now on. None: as the playbook says; what is left
    out stays as it is."""

    at: float
    step: str
    limit: int | msgspec.UnsetType | None = msgspec.UNSET
    rate: StepRate | msgspec.UnsetType | None = msgspec.UNSET
    actor: str | None = None
    reason: str | None = None


class TaskAction(StrEnum):
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
    roles: tuple[str, ...] = ()  # those the person has, as the server knows them, not as the request says
    values: dict[str, Any] = {}  # of the form, to complete it
    version: int | None = None  # the state of the task that the person has seen; None: whatever it is
    text: str = ""  # what a comment says


class Proceed(msgspec.Struct, frozen=True, kw_only=True):
    """Do the first thing the state itself asks for. `fires`: alarms that are due go off, too."""

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


# Starts: what is known of an execution that is to begin.


class Start(ExecutionStart, frozen=True, kw_only=True):
    """An execution to begin, with its net."""

    net: Net
    execution_id: str
    trace_id: str

    def command(self, at: float, net_hash: str, late_after_s: tuple[float, ...] = ()) -> StartExecution:
        shared = {name: getattr(self, name) for name in ExecutionStart.__struct_fields__}
        return StartExecution(at=at, net_hash=net_hash, late_after_s=late_after_s, **shared)
