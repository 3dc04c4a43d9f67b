"""Requests of other processes on the same store: looked for now and then, recorded, answered (SRV-07, SRV-11)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, Outage, RefusedError
from noetl.control.executions import Control, Executions
from noetl.control.outside.human_tasks import RequestResult, request_result
from noetl.control.outside.messages import MessageQueue
from noetl.engine import commands
from noetl.events.orders import ReportResult
from noetl.store.requests import RequestRow, Requests

# Nobody is woken for a request, so this is about how long `noetl pause` on a local store takes.
POLL_S = 0.5
ACTIONS = ("pause", "resume", "cancel", "compensate")

_log = logging.getLogger(__name__)


def command_for(action: str, *, at: float, reason: str | None) -> Control:
    match action:
        case "pause":
            return commands.PauseExecution(at=at, reason=reason)
        case "resume":
            return commands.ResumeExecution(at=at, reason=reason)
        case "cancel":
            return commands.CancelExecution(at=at, reason=reason or "asked for")
        case "compensate":  # cancel, and undo what was done first (O-02)
            return commands.CancelExecution(at=at, reason=reason or "asked for", compensate=True)
        case _:
            raise RefusedError(f'nobody here knows how to "{action}" an execution; there is {", ".join(ACTIONS)}')


async def attend(
    executions: Executions,
    requests: Requests,
    clock: Clock,
    *,
    message_queue: MessageQueue | None = None,
    reaches: Callable[[str], bool] | None = None,
) -> None:
    """Take the requests for executions that are driven here, or for those that `reaches` names, for as long as anybody
    wants it; and look for messages that others have stored for them."""
    reaches = reaches or executions.drives
    outage = Outage(_log, "requests were not looked for", "requests are looked for again")
    while True:
        await asyncio.sleep(POLL_S)
        try:
            for request in await requests.pending():
                if reaches(request.execution_id):
                    await take(executions, requests, request, clock)
            if executions.may_be_moved_by_others:
                await executions.catch_up()  # who asked may have lost patience and recorded it itself
            if message_queue is not None:
                await message_queue.deliver_stored_messages()
            outage.worked()
        except BackendError as problem:
            if not executions.policy.outlives_outages:
                raise
            outage.failed(problem)


async def take(executions: Executions, requests: Requests, request: RequestRow, clock: Clock) -> ReportResult:
    """Record what is asked for, then answer. A crash in between asks again, which changes nothing. What cannot be done
    is an answer too."""
    try:
        command = asked_command(request, at=clock.now())
        if command is None:
            control = command_for(request.action, at=clock.now(), reason=request.reason)
            verdict = await executions.control(request.execution_id, control)
            said, text = verdict, verdict.value
        else:
            heard = request_result(await executions.submit(request.execution_id, command))
            said, text = heard.verdict, encoded_result(heard)
    except (RefusedError, msgspec.DecodeError) as problem:
        said = ReportResult.REFUSED
        text = (
            encoded_result(RequestResult(verdict=said, detail=str(problem))) if carries_command(request) else said.value
        )
    await requests.answer(request.request_id, text, at=clock.now())
    return said


# Asks an execution something from another process, as a request that whoever drives it takes (design.md §2).
# The action names the command; the command itself, without its moment, is what the request carries.
DriverCommand = (
    commands.DeliverSignal | commands.InjectEvent | commands.CancelTimer | commands.ChangeLimit | commands.ActOnTask
)

_TYPES: dict[str, type[DriverCommand]] = {
    "signal": commands.DeliverSignal,
    "event": commands.InjectEvent,
    "cancel_timer": commands.CancelTimer,
    "limit": commands.ChangeLimit,
    "task": commands.ActOnTask,
}
_ACTIONS = {of: action for action, of in _TYPES.items()}


def action_of(command: DriverCommand) -> str:
    return _ACTIONS[type(command)]


def encoded_command(command: DriverCommand) -> str:
    return msgspec.json.encode(command).decode()


def carries_command(request: RequestRow) -> bool:
    """Whether a request carries a command of its own."""
    return request.action in _TYPES


def asked_command(request: RequestRow, *, at: float) -> DriverCommand | None:
    """The command that a request asks for, as of now; None when it asks for something else."""
    of = _TYPES.get(request.action)
    if of is None:
        return None
    # The moment is that of whoever decides: timers and deadlines are compared with one clock. The column `reason` holds
    # the command here; for pause, resume and cancel it is text.
    return msgspec.structs.replace(msgspec.json.decode(request.reason or "", type=of), at=at)


def encoded_result(told: RequestResult) -> str:
    return msgspec.json.encode(told).decode()


def decoded_result(text: str) -> RequestResult:
    return msgspec.json.decode(text, type=RequestResult)
