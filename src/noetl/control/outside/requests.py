"""Requests between processes on the same store: polled, decided, answered (SRV-07, SRV-11)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, Outage, RefusedError
from noetl.control.executions import Control, Executions
from noetl.control.outside.human_tasks import RequestResult, request_result
from noetl.control.outside.messages import MessageQueue
from noetl.engine import commands
from noetl.events.orders import ReportResult
from noetl.store.waits import RequestRow, Requests

# There is no wake-up for a request, so this is about how long `noetl pause` on a local store takes.
POLL_S = 0.5
ACTIONS = ("pause", "resume", "cancel", "compensate")

_log = logging.getLogger(__name__)


def command_for(action: str, *, at: float, reason: str | None, actor: str | None = None) -> Control:
    """The command of a request without a body. RefusedError for an unknown action."""
    match action:
        case "pause":
            return commands.PauseExecution(at=at, reason=reason, actor=actor)
        case "resume":
            return commands.ResumeExecution(at=at, reason=reason, actor=actor)
        case "cancel":
            return commands.CancelExecution(at=at, reason=reason or "on request", actor=actor)
        case "compensate":  # cancel, and undo what was done first (O-02)
            return commands.CancelExecution(at=at, reason=reason or "on request", compensate=True, actor=actor)
        case _:
            raise RefusedError(f'there is no action "{action}" for an execution; allowed are {", ".join(ACTIONS)}')


class _Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a pause, resume or cancel request of a user."""

    actor: str
    reason: str | None = None


def control_body(reason: str | None, actor: str | None) -> str | None:
    """As the column `reason` of a request holds it. Without a user it is the reason alone; earlier versions write no
    other."""
    return msgspec.json.encode(_Asked(actor=actor, reason=reason)).decode() if actor else reason


def _requested_control(request: RequestRow, *, at: float) -> Control:
    """The pause, resume or cancellation that is asked for."""
    reason, actor = request.reason, None
    with suppress(msgspec.DecodeError):  # it is the reason alone
        asked = msgspec.json.decode(reason or "", type=_Asked)
        reason, actor = asked.reason, asked.actor
    return command_for(request.action, at=at, reason=reason, actor=actor)


async def serve_requests(
    executions: Executions,
    requests: Requests,
    clock: Clock,
    *,
    message_queue: MessageQueue | None = None,
    reaches: Callable[[str], bool] | None = None,
) -> None:
    """Take the requests for executions that this process drives, or that `reaches` accepts, and deliver messages that
    others have stored for them; runs until it is cancelled."""
    reaches = reaches or executions.drives
    outage = Outage(_log, "requests were not looked for", "requests are looked for again")
    while True:
        await asyncio.sleep(POLL_S)
        try:
            for request in await requests.pending():
                if reaches(request.execution_id):
                    await take(executions, requests, request, clock)
            if executions.may_be_moved_by_others:
                # A process that got no answer in time may have recorded its request itself.
                await executions.catch_up()
            if message_queue is not None:
                await message_queue.deliver_stored_messages()
            outage.worked()
        except BackendError as problem:
            if not executions.policy.outlives_outages:
                raise
            outage.failed(problem)


async def take(executions: Executions, requests: Requests, request: RequestRow, clock: Clock) -> ReportResult:
    """Decide and store a request, then answer it. After a crash in between the request is taken again, which changes
    nothing. A refusal is an answer too."""
    try:
        command = requested_command(request, at=clock.now())
        if command is None:
            control = _requested_control(request, at=clock.now())
            verdict = await executions.control(request.execution_id, control)
            text = verdict.value
        else:
            result = request_result(await executions.submit(request.execution_id, command))
            verdict, text = result.verdict, encoded_result(result)
    except (RefusedError, msgspec.DecodeError) as problem:
        verdict = ReportResult.REFUSED
        refusal = RequestResult(verdict=verdict, detail=str(problem))
        text = encoded_result(refusal) if carries_command(request) else verdict.value
    await requests.answer(request.request_id, text, at=clock.now())
    return verdict


# Commands that a request carries to the process that drives the execution (design.md §2). The action names the type of
# the command; the body is the command itself, whose time the driving process replaces.
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
_ACTIONS = {command_type: action for action, command_type in _TYPES.items()}


def action_of(command: DriverCommand) -> str:
    return _ACTIONS[type(command)]


def encoded_command(command: DriverCommand) -> str:
    return msgspec.json.encode(command).decode()


def carries_command(request: RequestRow) -> bool:
    """Whether a request carries a command of its own."""
    return request.action in _TYPES


def requested_command(request: RequestRow, *, at: float) -> DriverCommand | None:
    """The command that a request carries, with the time `at`; None when it carries none."""
    command_type = _TYPES.get(request.action)
    if command_type is None:
        return None
    # The time of the process that decides: timers and deadlines are compared with one clock. The column `reason` holds
    # the command here; for pause, resume and cancel it is text.
    return msgspec.structs.replace(msgspec.json.decode(request.reason or "", type=command_type), at=at)


def encoded_result(result: RequestResult) -> str:
    return msgspec.json.encode(result).decode()


def decoded_result(text: str) -> RequestResult:
    return msgspec.json.decode(text, type=RequestResult)
