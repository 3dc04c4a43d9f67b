"""Steering an execution from another terminal: a request is left in the store, who runs it answers (SRV-07, SRV-11).

When nobody runs it, what was asked for is decided here, as its own process would have done; should there be one after
all, the log decides between the two.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import click

from noetl.cli.queries import LOOKED_FOR, QueryRefused, find_execution, is_there, place_of, refusals, resume_hint

if TYPE_CHECKING:
    from noetl.cli.connection import Reached
    from noetl.events.orders import ReportResult
    from noetl.store.contract import ExecutionRow, ResultStore, Store

PATIENCE_S = 5.0  # a running process looks for requests every second
_POLL_S = 0.05
_DONE = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "compensate": "cancelling and compensating"}
_SAME = {
    "pause": "was paused already",
    "resume": "was not paused",
    "cancel": "was cancelled already",
    "compensate": "was cancelled already",
}

reason_option = click.option("--reason", metavar="TEXT", help="Why; it is recorded with the event.")


def steer(given: str, action: str, *, reason: str | None, db: str | None) -> None:
    """Have `action` done to the execution that is meant, and say what became of it."""
    from noetl.cli.connection import server_meant
    from noetl.events.orders import ReportResult

    if (there := server_meant(db)) is not None:
        _steer_there(there, given, action, reason)
        return
    with refusals():
        row, verdict, is_run = asyncio.run(_steered(given, action, reason, db))
    match verdict:
        case ReportResult.ACCEPTED:
            click.echo(f"{_DONE[action]} execution {row.execution_id}")
        case ReportResult.DUPLICATE:
            click.echo(f"execution {row.execution_id} {_SAME[action]}")
        case _:
            raise QueryRefused(f"execution {row.execution_id} has ended, and what has ended stays as it is")
    if not is_run and action != "cancel":
        click.echo(f"nobody runs it now; take it up with: {resume_hint(db, row.execution_id)}", err=True)


def _steer_there(there: Reached, given: str, action: str, reason: str | None) -> None:
    from noetl.cli.queries import read
    from noetl.client import requests

    row = read(None, lambda records: find_execution(records, given))
    with refusals(), there.client() as client:
        steered = client.send(requests.steer(row.execution_id, action, reason))
    if steered.changed:
        click.echo(f"{_DONE[action]} execution {row.execution_id}")
    else:
        click.echo(f"execution {row.execution_id} {_SAME[action]}")


async def _steered(
    given: str, action: str, reason: str | None, db: str | None
) -> tuple[ExecutionRow, ReportResult, bool]:
    """The execution, the verdict, and whether some process runs it."""
    from noetl.store.open_store import open_store

    if not is_there(db):
        raise QueryRefused(f"there is no store {place_of(db)}{LOOKED_FOR}")
    store, results = await open_store(db)
    try:
        row = await find_execution(store, given)
        if row.finished_at is not None:
            raise QueryRefused(f"execution {row.execution_id} has ended: it is {row.status}")
        request_id = await store.requests.ask(row.execution_id, action, reason=reason, at=time.time())
        verdict = await _driver_answer(store, row.execution_id, request_id)
        if verdict is not None:
            return row, verdict, True
        verdict = await _decided_here(store, results, row.execution_id, action, reason)
        await store.requests.answer(request_id, verdict.value, at=time.time())
        return row, verdict, False
    finally:
        await store.close()


async def _driver_answer(store: Store, execution_id: str, request_id: int) -> ReportResult | None:
    """What the process that runs it says; None when there is none, or it does not answer."""
    from noetl.cli.status import abandoned
    from noetl.control.background.presence import is_anybody_there
    from noetl.events.orders import ReportResult
    from noetl.worker.identity import is_gone

    row = await store.execution(execution_id)
    if row is None or await abandoned(store, row):
        return None
    if not await store.orders(execution_id) and not await is_anybody_there(store.key_values, is_gone, now=time.time()):
        return None  # it only waits, and nobody waits with it
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        request = await store.requests.get(request_id)
        if request is not None and request.answer is not None:
            return ReportResult(request.answer)
        await asyncio.sleep(_POLL_S)
    return None


async def _decided_here(
    store: Store, results: ResultStore, execution_id: str, action: str, reason: str | None
) -> ReportResult:
    from noetl.base.clock import SystemClock
    from noetl.control.executions import Executions
    from noetl.control.outside.requests import command_for
    from noetl.store.wakeups.memory import MemoryWakeups

    executions = Executions(store, results, MemoryWakeups(), SystemClock())
    await executions.take_up(execution_id, is_gone=lambda _: True)  # with its children, so that they hear of it too
    return await executions.control(execution_id, command_for(action, at=time.time(), reason=reason))
