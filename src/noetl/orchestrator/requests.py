"""Requests of other processes on the same store: looked for now and then, recorded, answered (SRV-07, SRV-11)."""

from __future__ import annotations

import asyncio

from noetl.clock import Clock
from noetl.engine.commands import CancelExecution, PauseExecution, ResumeExecution
from noetl.errors import RefusedError
from noetl.orchestrator.conduct import Conductor, Control
from noetl.records.orders import Verdict
from noetl.store.requests import RequestRow, Requests

POLL_S = 0.5
ACTIONS = ("pause", "resume", "cancel")


def command_for(action: str, *, at: float, reason: str | None) -> Control:
    match action:
        case "pause":
            return PauseExecution(at=at, reason=reason)
        case "resume":
            return ResumeExecution(at=at, reason=reason)
        case "cancel":
            return CancelExecution(at=at, reason=reason or "asked for")
        case _:
            raise RefusedError(f'nobody here knows how to "{action}" an execution; there is {", ".join(ACTIONS)}')


async def attend(conductor: Conductor, requests: Requests, clock: Clock) -> None:
    """Take the requests for executions that are driven here, for as long as anybody wants it."""
    while True:
        await asyncio.sleep(POLL_S)
        for request in await requests.pending():
            if conductor.drives(request.execution_id):
                await take(conductor, requests, request, clock)
        if conductor.is_holding or conductor.is_contended:
            await conductor.catch_up()  # who asked may have lost patience and recorded it itself


async def take(conductor: Conductor, requests: Requests, request: RequestRow, clock: Clock) -> Verdict:
    """Record what is asked for, then answer. A crash in between asks again, which changes nothing."""
    command = command_for(request.action, at=clock.now(), reason=request.reason)
    verdict = await conductor.control(request.execution_id, command)
    await requests.answer(request.request_id, verdict.value, at=clock.now())
    return verdict
