"""`noetl events`: the log of an execution, as it is stored or as it grows (EVT-02, EVT-05)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.completion import STEP
from noetl.cli.connection import known_step, place_options, read
from noetl.cli.queries import ID_HELP, as_json, find_execution, id_argument
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.events.envelope import Event
    from noetl.store.contract import Records

_COLORS = {"error": "red", "success": "green", "paused": "yellow"}
_NAME, _STEP, _WORDS = 28, 16, 120


@click.command("events", epilog=ID_HELP)
@id_argument
@click.option("--follow", "-f", is_flag=True, help="Also print new events, until the execution ends.")
@click.option("--step", metavar="STEP", type=STEP, help="Only events of this step.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type; * stands for any text.")
@click.option("--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Only events past this number.")
@click.option(
    "--names",
    type=click.Choice(["dotted", "legacy"]),
    default="dotted",
    help="Event names as stored, or the older CamelCase names.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "jsonl"]), default="text", help="Output format.")
@place_options
@color_option
def command(
    given: str,
    follow: bool,
    step: str | None,
    types: tuple[str, ...],
    after: int,
    names: str,
    output: str,
    db: str | None,
) -> None:
    """Print the events of an execution.

    A line of text is: number, time, name, step, what it says. JSON has the whole envelope.
    """
    if follow and output == "json":
        raise click.UsageError("what grows has no end to close a JSON list with: use -o jsonl with --follow")

    async def print_events(history: Records) -> None:
        from noetl.operations.executions import event_pages, followed_events
        from noetl.store.contract import SingleRow

        row = await find_execution(history, given)
        await known_step(history, row, step)
        stream = followed_events if follow else event_pages
        listed: list[dict[str, Any]] = []
        async for events in stream(history, row.execution_id, after=after, only=SingleRow(types=types, step=step)):
            for event in events:
                if output == "json":
                    listed.append(_readable(event, names))
                else:
                    click.echo(_line(event, names) if output == "text" else as_json(_readable(event, names), indent=-1))
        if output == "json":
            click.echo(as_json(listed))

    read(db, print_events)


def _readable(event: Event, names: str) -> dict[str, Any]:
    from noetl.events.envelope import readable

    shown = readable(event)
    if names == "legacy":
        shown["event_type"] = shown["name"] = _name(event, names)
    return shown


def _name(event: Event, names: str) -> str:
    if names == "dotted":
        return event.event_type
    from noetl.events.envelope import status_of
    from noetl.events.legacy_names import legacy_name

    return legacy_name(event.event_type, status_of(event.payload))


def _line(event: Event, names: str) -> str:
    from noetl.events.envelope import status_of

    status = status_of(event.payload)
    moment = f"{time.strftime('%H:%M:%S', time.localtime(event.ts))}.{int(event.ts % 1 * 1000):03d}"
    name = click.style(f"{visible(_name(event, names)):{_NAME}}", fg=_COLORS.get(status))
    return f"{event.seq:>6}  {moment}  {name}  {visible(event.step or ''):{_STEP}}  {_words(event)}".rstrip()


def _words(event: Event) -> str:
    """What the event adds, short; ids and the envelope are for `-o json`."""
    import msgspec

    from noetl.cli.live_text import clipped, error_line
    from noetl.events.tasks import TaskProcessed
    from noetl.events.tokens import NextSelected

    payload = event.payload
    match payload:
        case TaskProcessed():
            where = "".join(f"[{index}]" for index in payload.path)
            outcome = payload.outcome
            ended = error_line(outcome.error) if outcome.error is not None else "ok"
            words = f"{payload.task}{where} {ended}, {outcome.meta.duration_ms:.0f} ms, {payload.decision.do}"
        case NextSelected() if payload.error is None:
            fired = [arc.step for arc in payload.arcs if arc.fired]
            words = f"→ {', '.join(fired)}" if fired else f"the token ends here: {payload.ended}"
        case _:
            plain = msgspec.to_builtins(payload)
            said = {key: value for key, value in plain.items() if key not in _IDS and value not in (None, {}, [], "")}
            words = msgspec.json.encode(said).decode() if said else ""
    return clipped(words, _WORDS)


_IDS = {
    "event",
    "token_id",
    "order_id",
    "task_run_id",
    "source_event_id",
    "parent_step_run_id",
    "worker_id",
    "net_hash",
}
