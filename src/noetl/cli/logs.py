"""`noetl logs`: what tasks printed, by step, task and attempt, and the errors they ended with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from noetl.cli.connection import known_step, place_meant, read, reads_server_option
from noetl.cli.live_completion import STEP
from noetl.cli.queries import ID_HELP, as_json, db_option, find_execution, id_argument
from noetl.cli.terminal import color_option, visible
from noetl.operations.log_levels import LEVELS, Level, is_at_least, levels_of

if TYPE_CHECKING:
    from noetl.events.envelope import Event
    from noetl.events.tasks import TaskProcessed
    from noetl.store.contract import Records


@click.command("logs", epilog=ID_HELP)
@id_argument
@click.option("--step", metavar="STEP", type=STEP, help="Only of this step.")
@click.option("--task", metavar="TASK", help="Only of this task.")
@click.option("--level", type=click.Choice(LEVELS), help="Only lines of this level or a graver one, and errors.")
@click.option(
    "--follow", "-f", is_flag=True, help="Go on until it has ended; with a server, show lines as tasks print."
)
@click.option("-o", "--output", type=click.Choice(["text", "jsonl"]), default="text", help="Form of the output.")
@db_option
@reads_server_option
@color_option
def command(
    given: str, step: str | None, task: str | None, level: Level | None, follow: bool, output: str, db: str | None
) -> None:
    """Print what the tasks of an execution printed, and their errors.

    Each line says whose it is: step/task, the iteration in brackets, and the attempt where it was not the first. With
    --follow a server also tells what tasks print while they run: the newest lines, best effort.
    """

    async def print_logs(history: Records) -> None:
        from noetl.cli.live_output import live_output_of
        from noetl.events.tasks import TaskProcessed
        from noetl.operations.executions import event_pages, followed_events
        from noetl.operations.results import LoadableValues, log_line, whole_payload
        from noetl.store.contract import SingleRow

        values = LoadableValues(place_meant(db).results())
        row = await find_execution(history, given)
        await known_step(history, row, step)
        only = SingleRow(types=(TaskProcessed.event_type,), step=step)
        is_live = follow and output == "text"
        live = live_output_of(history, row.execution_id, step, task, level) if is_live else None
        before_look = live.show_new if live is not None else None
        events_of = partial(followed_events, before_look=before_look) if follow else event_pages
        async for events in events_of(history, row.execution_id, only=only):
            for event in events:
                processed = event.payload
                if not isinstance(processed, TaskProcessed) or task not in (None, processed.task):
                    continue
                if log_line(event, processed) is not None:
                    whole = await whole_payload(processed, values)
                    _print(event, at_level(whole if live is None else live.not_shown(whole), level), output)

    read(db, print_logs)


def _print(event: Event, processed: TaskProcessed, output: str) -> None:
    from noetl.operations.results import log_line

    if (entry := log_line(event, processed)) is None:
        return  # no line of it has the level that is asked for
    if output == "jsonl":
        click.echo(as_json(entry, indent=-1))
        return
    whose = log_source(event.step or "", processed.path, processed.task, processed.attempt)
    for line in _lines(processed):
        click.echo(whose + line)


def at_level(processed: TaskProcessed, least: Level | None) -> TaskProcessed:
    """What a task run printed, only the lines of a level or a graver one."""
    stdout = processed.outcome.meta.stdout
    if least is None or not stdout:
        return processed
    import msgspec

    letters = levels_of(stdout)
    shown = [line for line, letter in zip(stdout.split("\n"), letters, strict=False) if is_at_least(letter, least)]
    meta = msgspec.structs.replace(processed.outcome.meta, stdout="\n".join(shown) or None)
    return msgspec.structs.replace(processed, outcome=msgspec.structs.replace(processed.outcome, meta=meta))


def log_source(step: str, path: Sequence[int], task: str, attempt: int) -> str:
    """Whose a line is, before it."""
    where = "".join(f"[{index}]" for index in path)
    again = f" #{attempt}" if attempt > 1 else ""
    return click.style(f"{visible(step)}{where}/{visible(task)}{again} │ ", dim=True)


def _lines(processed: TaskProcessed) -> Iterator[str]:
    from noetl.cli.live_text import WHOLE, error_line, printed, trace_lines

    outcome = processed.outcome
    if outcome.meta.stdout:
        yield from (printed(line) for line in outcome.meta.stdout.rstrip("\n").split("\n"))
    if outcome.error is not None:
        yield click.style("✗ error", fg="red") + f": {error_line(outcome.error, WHOLE)}"
        yield from (f"  {line}" for line in trace_lines(outcome.error))
