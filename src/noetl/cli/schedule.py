"""`noetl schedule`: playbooks that the clock starts (TMR-01). They are kept by a server on the same store."""

from __future__ import annotations

import time
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.reading import as_json, db_option
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.records.schedules import Backfill, Schedule
    from noetl.store.contract import Store

_SHOWN = 20  # times of a dry run that are listed
_MOST = 100_000  # times of one backfill

path_argument = click.argument("path", metavar="PATH")
_output = click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Form of the output."
)


@click.group("schedule", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """Look at schedules, pause them, make up for missed times.

    A playbook with a trigger is scheduled when it is registered. PATH is its path in the catalogue. A server on the
    same store starts it: noetl dev.
    """


@command.command("list")
@_output
@db_option
def list_command(output: str, db: str | None) -> None:
    """List the schedules, with the time that comes next."""
    from noetl.cli.columns import columns
    from noetl.cli.telling import using
    from noetl.orchestrator.timetable import Timetable

    async def look(store: Store) -> tuple[list[Schedule], list[Backfill]]:
        timetable = Timetable(store.shelf)
        return await timetable.schedules(), await timetable.backfills()

    schedules, backfills = using(db, look)
    if output == "json":
        click.echo(as_json([_readable(one) for one in schedules]))
        return
    rows = [
        (one.path, one.cron, one.timezone, "paused" if one.paused else next(iter(_coming(one, 1)), "never"))
        for one in schedules
    ]
    for line in columns(("PATH", "CRON", "ZONE", "NEXT"), rows, nothing="no schedules"):
        click.echo(line)
    for one in backfills:
        left = f"{one.started:,} started, {one.known:,} had run, {len(one.running):,} running"
        click.echo(f"backfill of {visible(one.path)}: {left}")


@command.command("next")
@path_argument
@click.option("--count", "-n", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many times.")
@_output
@db_option
def next_command(path: str, count: int, output: str, db: str | None) -> None:
    """Show the times that come next."""
    schedule = _schedule(path, db)
    coming = _coming(schedule, count)
    if output == "json":
        click.echo(as_json(coming))
        return
    for moment in coming:
        click.echo(moment)
    if schedule.paused:
        click.echo(f"it is paused, and none of them will be kept: noetl schedule resume {path}", err=True)


@command.command("pause")
@path_argument
@db_option
def pause(path: str, db: str | None) -> None:
    """Start nothing at its times until it is resumed."""
    from noetl.cli.telling import using
    from noetl.orchestrator.timetable import Timetable

    using(db, lambda store: Timetable(store.shelf).pause(path, at=time.time()))
    click.echo(f"paused the schedule of {visible(path)}")


@command.command("resume")
@path_argument
@db_option
def resume(path: str, db: str | None) -> None:
    """Go on with a paused schedule from now on; times that passed can be backfilled."""
    from noetl.cli.telling import using
    from noetl.orchestrator.timetable import Timetable

    using(db, lambda store: Timetable(store.shelf).resume(path, at=time.time()))
    click.echo(f"resumed the schedule of {visible(path)}")


@command.command("backfill")
@path_argument
@click.option("--from", "start", required=True, metavar="TIME", help="The first time: 2025-01-01 or 2025-01-01T06:00.")
@click.option("--to", "end", metavar="TIME", help="The last time; now when left out.")
@click.option("--limit", type=click.IntRange(1), default=5, show_default=True, help="At most so many at once.")
@click.option("--dry-run", is_flag=True, help="Only say which times would be run.")
@db_option
def backfill(path: str, start: str, end: str | None, limit: int, dry_run: bool, db: str | None) -> None:
    """Run a playbook for times of its schedule that have passed; what has run for a time is not run again.

    Times without an offset are in the zone of the schedule. A server on this store does the work, and can be stopped
    and started meanwhile.
    """
    from noetl.cli.telling import using
    from noetl.ids import uuid7
    from noetl.orchestrator.timetable import Timetable

    schedule = _schedule(path, db)
    since, until = _moment(start, schedule, "--from"), time.time() if end is None else _moment(end, schedule, "--to")
    asked = _asked(schedule, since, min(until, time.time()), limit, uuid7(time.time()))
    times, known = using(db, lambda store: _times(store, asked))
    fresh = [moment for moment in times if moment not in known]
    words = f"{len(fresh):,} of {len(times):,} times to run, {len(known):,} have run"
    if dry_run:
        _say_times(fresh, schedule, words)
        return
    if fresh:
        using(db, lambda store: Timetable(store.shelf).ask_for(asked, at=time.time()))
        words += f"; a server on this store runs them, {limit} at a time"
    click.echo(words)


def _asked(schedule: Schedule, since: float, until: float, limit: int, backfill_id: str) -> Backfill:
    from noetl.records.schedules import Backfill

    return Backfill(
        backfill_id=backfill_id,
        path=schedule.path,
        net_hash=schedule.net_hash,
        cron=schedule.cron,
        timezone=schedule.timezone,
        kept=since - 1.0,
        until=until,
        limit=limit,
    )


async def _times(store: Store, asked: Backfill) -> tuple[list[float], set[float]]:
    """The times of a backfill, and those of them that have run."""
    from noetl.errors import RefusedError
    from noetl.orchestrator.cron import times
    from noetl.orchestrator.schedules import execution_id_of

    found = list(islice(times(asked.cron, asked.timezone, after=asked.kept, until=asked.until), _MOST + 1))
    if len(found) > _MOST:
        raise RefusedError(f"that is more than {_MOST:,} times: name a shorter span with --from and --to")
    known = {one for one in found if await store.execution(execution_id_of(asked.path, one)) is not None}
    return found, known


def _say_times(fresh: list[float], schedule: Schedule, words: str) -> None:
    from noetl.orchestrator.cron import as_written

    for moment in fresh[:_SHOWN]:
        click.echo(as_written(moment, schedule.timezone))
    if len(fresh) > _SHOWN:
        click.echo(f"… and {len(fresh) - _SHOWN:,} more, the last at {as_written(fresh[-1], schedule.timezone)}")
    click.echo(words, err=True)


def _schedule(path: str, db: str | None) -> Schedule:
    from noetl.cli.telling import using
    from noetl.orchestrator.timetable import Timetable

    return using(db, lambda store: Timetable(store.shelf).get(path))


def _coming(schedule: Schedule, count: int) -> list[str]:
    from noetl.orchestrator.cron import as_written, times

    after = max(time.time(), schedule.kept)
    coming = islice(times(schedule.cron, schedule.timezone, after=after), count)
    return [as_written(moment, schedule.timezone) for moment in coming]


def _moment(text: str, schedule: Schedule, option: str) -> float:
    from zoneinfo import ZoneInfo

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f'"{text}" is not a time such as 2025-01-01T06:00', param_hint=option) from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=ZoneInfo(schedule.timezone))).timestamp()


def _readable(schedule: Schedule) -> dict[str, Any]:
    import msgspec

    from noetl.clock import rfc3339

    fields: dict[str, Any] = msgspec.to_builtins(schedule)
    coming = next(iter(_coming(schedule, 1)), None)
    return fields | {
        "kept": rfc3339(schedule.kept),
        "queued": [rfc3339(moment) for moment in schedule.queued],
        "next": None if schedule.paused else coming,
    }
