"""`noetl schedule`: playbooks that start by time (TMR-01). A server on the same store starts them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from noetl.base.clock import rfc3339
from noetl.cli.completion import PLAYBOOK
from noetl.cli.connection import ask, place_meant, place_options
from noetl.cli.queries import QueryRefused
from noetl.cli.terminal import as_json, color_option, columns, list_output, print_list, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.administration_shapes import Backfilled, ScheduleList

# Times of a dry run that are listed.
_SHOWN = 20

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
    schedules = ask(db, lambda it: it.schedules())
    print_list(schedules.schedules, output, key="path", table=lambda: _table(schedules))


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
        from noetl.operations.triggers import coming_times

        coming = coming_times(schedule.cron, schedule.timezone, count)
    if output == "json":
        click.echo(as_json(coming))
        return
    for moment in coming:
        click.echo(moment)
    if schedule.paused:
        click.echo(f"it is paused, so none of them will run: noetl schedule resume {path}", err=True)


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

    async def request_backfill(it: Operations) -> Backfilled:
        zone = (await it.schedule(path)).timezone
        since, until = _parsed_time(start, zone, "--from"), None if end is None else _parsed_time(end, zone, "--to")
        if until is not None and until < since:
            raise QueryRefused("--to is before --from")
        return await it.backfill(
            path, rfc3339(since), None if until is None else rfc3339(until), limit=limit, dry_run=dry_run
        )

    result = ask(db, request_backfill)
    words = f"{len(result.times):,} of {len(result.times) + result.known:,} times to run, {result.known:,} have run"
    if dry_run:
        _say_times(result.times)
        click.echo(words, err=True)
        return
    click.echo(words + (f"; {place_meant(db).scheduler} runs them, {limit} at a time" if result.times else ""))


def _table(schedules: ScheduleList) -> Iterator[str]:
    rows = [
        (
            entry.path,
            entry.words or entry.cron,  # a server of an earlier version sends no words
            entry.cron,
            entry.timezone,
            "paused" if entry.paused else next(iter(entry.next), "never"),
        )
        for entry in schedules.schedules
    ]
    yield from columns(("PATH", "RUNS", "CRON", "ZONE", "NEXT"), rows, nothing="no schedules")
    for entry in schedules.backfills:
        left = f"{entry.started:,} started, {entry.known:,} had run, {entry.running:,} running"
        yield f"backfill of {visible(entry.path)}: {left}"


def _say_times(times: list[str]) -> None:
    for moment in times[:_SHOWN]:
        click.echo(moment)
    if len(times) > _SHOWN:
        click.echo(f"… and {len(times) - _SHOWN:,} more, the last at {times[-1]}")


def _parsed_time(text: str, zone: str, option: str) -> float:
    from zoneinfo import ZoneInfo

    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=ZoneInfo(zone))).timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter(f'"{text}" is not a time such as 2025-01-01T06:00', param_hint=option) from None
