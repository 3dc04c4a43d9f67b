"""`noetl timer`: what waits for its moment, and cancelling it where its author allows that (TMR-04)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import Reached, reads_server_option, server_answer, server_meant
from noetl.cli.live_completion import EXECUTION
from noetl.cli.output_formats import list_output, print_list
from noetl.cli.queries import ID_HELP, QueryRefused, db_option, find_execution, id_argument, read
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.events.envelope import Event
    from noetl.store.contract import ExecutionRow, Store

_AMONG = 200  # the newest open executions


@click.group("timer", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """List timers that run, and cancel them."""


@command.command("list", epilog=ID_HELP)
@click.argument("given", metavar="[ID]", required=False, type=EXECUTION)
@list_output
@db_option
@reads_server_option
def list_command(given: str | None, output: str, db: str | None) -> None:
    """List the timers that run in an execution, or in all that are open, the nearest first."""
    there = server_meant(db)
    timers = _listed_here(given, db) if there is None else _listed_there(there, given)
    print_list(timers, output, key="id", table=lambda: _table(timers))


def _listed_there(there: Reached, given: str | None) -> list[dict[str, Any]]:
    import msgspec

    meant = read(None, lambda records: find_execution(records, given)).execution_id if given is not None else None
    told: list[dict[str, Any]] = msgspec.to_builtins(server_answer(there, lambda client: client.timers(meant)))
    return told


def _listed_here(given: str | None, db: str | None) -> list[dict[str, Any]]:
    from noetl.base.clock import rfc3339
    from noetl.cli.requests import using

    async def timer_rows(store: Store) -> list[dict[str, Any]]:
        rows = [await find_execution(store, given)] if given is not None else await _open(store)
        timers = [timer for row in rows if row.finished_at is None for timer in await _running(store, row.execution_id)]
        return sorted(timers, key=lambda timer: float(timer["due_at"]))

    return [timer | {"due_at": rfc3339(timer["due_at"])} for timer in using(db, timer_rows)]


@command.command("cancel", epilog=ID_HELP)
@id_argument
@click.argument("timer")
@click.option("--as", "actor", metavar="USER", help="Who cancels it; your user name when left out.")
@db_option
@reads_server_option
def cancel(given: str, timer: str, actor: str | None, db: str | None) -> None:
    """Cancel a timer of an execution; its step goes on with timer.cancelled.

    TIMER is its id, or the name its author gave it. Only timers with spec.cancellable: true can be cancelled.

    \b
    noetl timer cancel last reminder
    """
    there = server_meant(db)
    if there is not None and actor is not None:
        raise click.UsageError("on a server you are who your token says: leave --as out")
    execution_id = _cancelled_here(given, timer, actor, db) if there is None else _cancelled_there(there, given, timer)
    click.echo(f'cancelled timer "{visible(timer)}" of execution {execution_id}')


def _cancelled_there(there: Reached, given: str, timer: str) -> str:
    """By its own id, which is looked up when its author's word for it is given."""
    execution_id = read(None, lambda records: find_execution(records, given)).execution_id
    running = server_answer(there, lambda client: client.timers(execution_id))
    meant = next((one for one in running if timer in (one.id, one.timer)), None)
    if meant is None:
        raise QueryRefused(f'no timer "{visible(timer)}" runs in execution {execution_id}: noetl timer list')
    server_answer(there, lambda client: client.cancel_timer(meant.id))
    return execution_id


def _cancelled_here(given: str, timer: str, actor: str | None, db: str | None) -> str:
    from getpass import getuser

    from noetl.cli.requests import send_command, using
    from noetl.control.outside.report_results import check
    from noetl.engine.commands import CancelTimer

    async def cancelled(store: Store) -> str:
        row = await find_execution(store, given)
        wanted = CancelTimer(at=time.time(), timer_id=timer, actor=actor or getuser())
        check(await send_command(store, db, row.execution_id, wanted), what=f'timer "{timer}"')
        return row.execution_id

    return using(db, cancelled)


async def _open(store: Store) -> list[ExecutionRow]:
    rows = [row for status in ("running", "paused") for row in await store.executions(limit=_AMONG, status=status)]
    return sorted(rows, key=lambda row: -row.created_at)


async def _running(store: Store, execution_id: str) -> list[dict[str, Any]]:
    """The timers of an execution that have neither fired nor been cancelled."""
    from noetl.store.contract import SingleRow

    timers: dict[str, dict[str, Any]] = {}
    for event in await store.events(execution_id, only=SingleRow(types=("timer.*",))):
        _apply(timers, event)
    return list(timers.values())


def _apply(timers: dict[str, dict[str, Any]], event: Event) -> None:
    from noetl.events.waits import TimerCancelled, TimerFired, TimerScheduled

    match event.payload:
        case TimerScheduled() as scheduled:
            timers[scheduled.wait_id] = {
                "id": scheduled.wait_id,
                "timer": scheduled.timer_id,
                "execution_id": event.execution_id,
                "step": event.step,
                "due_at": scheduled.due_at,
                "cancellable": scheduled.cancellable,
            }
        case TimerFired() | TimerCancelled() as over:
            timers.pop(over.wait_id, None)
        case _:
            pass


def _table(timers: list[dict[str, Any]]) -> list[str]:
    from datetime import datetime

    from noetl.cli.columns import columns
    from noetl.cli.live_text import local_time

    rows = [
        (
            timer["timer"],
            local_time(datetime.fromisoformat(timer["due_at"]).timestamp()),
            "yes" if timer["cancellable"] else "no",
            str(timer["step"]),
            timer["execution_id"],
        )
        for timer in timers
    ]
    return columns(("TIMER", "DUE", "CANCELLABLE", "STEP", "EXECUTION"), rows, nothing="no timers")
