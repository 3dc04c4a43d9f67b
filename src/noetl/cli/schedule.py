"""`noetl schedule`: playbooks that the clock starts (TMR-01). They are kept by a server, of which the store is told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from noetl.base.clock import rfc3339
from noetl.cli.completion import PLAYBOOK
from noetl.cli.connection import ask, place_meant, place_options
from noetl.cli.output_formats import list_output, print_list
from noetl.cli.queries import QueryRefused, as_json
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import Backfilled, ScheduleList

_SHOWN = 20  # times of a dry run that are listed

path_argument = click.argument("path", metavar="PATH", type=PLAYBOOK)


@click.group("schedule")
@color_option
def command() -> None:
    """List, pause, resume and backfill schedules.

    A playbook with a trigger is scheduled when it is registered. PATH is its path in the catalogue. A server on the
    same store starts it: noetl dev.
    """


@command.command("list")
@list_output
@place_options
def list_command(output: str, db: str | None) -> None:
    """List the schedules, with the time that comes next."""
    told = ask(db, lambda it: it.schedules())
    print_list(told.schedules, output, key="path", table=lambda: _table(told))


@command.command("next")
@path_argument
@click.option("--count", "-n", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many times.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format.")
@place_options
def next_command(path: str, count: int, output: str, db: str | None) -> None:
    """Show the times that come next."""
    schedule = ask(db, lambda it: it.schedule(path, count=count))
    coming = schedule.next
    if schedule.paused:
        from noetl.operations.schedules import coming_times

        coming = coming_times(schedule.cron, schedule.timezone, count)
    if output == "json":
        click.echo(as_json(coming))
        return
    for moment in coming:
        click.echo(moment)
    if schedule.paused:
        click.echo(f"it is paused, and none of them will be kept: noetl schedule resume {path}", err=True)


@command.command("pause")
@path_argument
@place_options
def pause(path: str, db: str | None) -> None:
    """Pause a schedule: nothing starts until you resume it."""
    ask(db, lambda it: it.pause_schedule(path))
    click.echo(f"paused the schedule of {visible(path)}")


@command.command("resume")
@path_argument
@place_options
def resume(path: str, db: str | None) -> None:
    """Resume a paused schedule from now on. To run the missed times, use backfill."""
    ask(db, lambda it: it.resume_schedule(path))
    click.echo(f"resumed the schedule of {visible(path)}")


@command.command("backfill")
@path_argument
@click.option("--from", "start", required=True, metavar="TIME", help="First time: 2025-01-01 or 2025-01-01T06:00.")
@click.option("--to", "end", metavar="TIME", help="Last time. [default: now]")
@click.option("--limit", type=click.IntRange(1), default=5, show_default=True, help="Most executions at once.")
@click.option("--dry-run", is_flag=True, help="Only list the times that would run.")
@place_options
def backfill(path: str, start: str, end: str | None, limit: int, dry_run: bool, db: str | None) -> None:
    """Run a playbook for times of its schedule that have passed; what has run for a time is not run again.

    Times without an offset are in the zone of the schedule. A server does the work, and can be stopped and started
    meanwhile.

    \b
    noetl schedule backfill etl/nightly --from 2025-01-01 --to 2025-01-31 --dry-run
    """

    async def backfilled(it: Operations) -> Backfilled:
        zone = (await it.schedule(path)).timezone
        since, until = _moment(start, zone, "--from"), None if end is None else _moment(end, zone, "--to")
        if until is not None and until < since:
            raise QueryRefused("--to is before --from")
        return await it.backfill(
            path, rfc3339(since), None if until is None else rfc3339(until), limit=limit, dry_run=dry_run
        )

    told = ask(db, backfilled)
    words = f"{len(told.times):,} of {len(told.times) + told.known:,} times to run, {told.known:,} have run"
    if dry_run:
        _say_times(told.times)
        click.echo(words, err=True)
        return
    click.echo(words + (f"; {place_meant(db).scheduler} runs them, {limit} at a time" if told.times else ""))


def _table(told: ScheduleList) -> Iterator[str]:
    from noetl.cli.output_formats import columns

    rows = [
        (one.path, one.cron, one.timezone, "paused" if one.paused else next(iter(one.next), "never"))
        for one in told.schedules
    ]
    yield from columns(("PATH", "CRON", "ZONE", "NEXT"), rows, nothing="no schedules")
    for one in told.backfills:
        left = f"{one.started:,} started, {one.known:,} had run, {one.running:,} running"
        yield f"backfill of {visible(one.path)}: {left}"


def _say_times(times: list[str]) -> None:
    for moment in times[:_SHOWN]:
        click.echo(moment)
    if len(times) > _SHOWN:
        click.echo(f"… and {len(times) - _SHOWN:,} more, the last at {times[-1]}")


def _moment(text: str, zone: str, option: str) -> float:
    from zoneinfo import ZoneInfo

    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=ZoneInfo(zone))).timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter(f'"{text}" is not a time such as 2025-01-01T06:00', param_hint=option) from None
