"""Telling an execution something from another process: as a request that whoever drives it takes (design.md §2).

The action names the command; the command itself, without its moment, is what the request carries.
"""

from __future__ import annotations

import msgspec

from noetl.control.outside.report_results import RequestResult
from noetl.engine.commands import ActOnTask, CancelTimer, ChangeLimit, DeliverSignal, InjectEvent
from noetl.store.requests import RequestRow

Telling = DeliverSignal | InjectEvent | CancelTimer | ChangeLimit | ActOnTask

_TYPES: dict[str, type[Telling]] = {
    "signal": DeliverSignal,
    "event": InjectEvent,
    "cancel_timer": CancelTimer,
    "limit": ChangeLimit,
    "task": ActOnTask,
}
_ACTIONS = {of: action for action, of in _TYPES.items()}


def action_of(command: Telling) -> str:
    return _ACTIONS[type(command)]


def encoded_command(command: Telling) -> str:
    return msgspec.json.encode(command).decode()


def knows(request: RequestRow) -> bool:
    """Whether a request is one of these."""
    return request.action in _TYPES


def read(request: RequestRow, *, at: float) -> Telling | None:
    """The command that a request asks for, as of now; None when it asks for something else."""
    of = _TYPES.get(request.action)
    if of is None:
        return None
    # The moment is that of whoever decides: timers and deadlines are compared with one clock. The column `reason` holds
    # the command here; for pause, resume and cancel it is text.
    return msgspec.structs.replace(msgspec.json.decode(request.reason or "", type=of), at=at)


def answer(told: RequestResult) -> str:
    return msgspec.json.encode(told).decode()


def decoded_result(text: str) -> RequestResult:
    return msgspec.json.decode(text, type=RequestResult)
