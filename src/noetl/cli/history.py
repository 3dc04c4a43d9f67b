"""`noetl logs` and `events`: what happened in an execution. Logs are the output and the errors of tasks, by step, task
and attempt; events are the log of the engine.

With --follow a server also sends the output of running tasks; each line is printed once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from noetl.base.redaction import cut_line, split_lines
from noetl.cli.completion import STEP
from noetl.cli.connection import known_step, live_output_source, place_meant, place_options, read
from noetl.cli.live_text import printed
from noetl.cli.queries import ID_HELP, find_execution, id_argument
from noetl.cli.terminal import as_json, color_option, visible
from noetl.operations.results import LEVELS, Level, is_at_least, levels_of

if TYPE_CHECKING:
    from noetl.client.history import RemoteRecords
    from noetl.events.envelope import Event
    from noetl.events.legacy_names import Names
    from noetl.events.tasks import TaskProcessed
    from noetl.operations.api_shapes import TaskOutputView
    from noetl.store.contract import Records


@click.command("logs", epilog=ID_HELP)
@id_argument
@click.option("--step", metavar="STEP", type=STEP, help="Only this step.")
@click.option("--task", metavar="TASK", help="Only this task.")
@click.option("--level", type=click.Choice(LEVELS), help="Only lines of this level or a higher one, and errors.")
@click.option(
    "--follow",
    "-f",
    is_flag=True,
    help="Follow until the execution ends; with a server, show lines as tasks print them.",
)
@click.option("-o", "--output", type=click.Choice(["text", "jsonl"]), default="text", help="Output format.")
@place_options
@color_option
def logs_command(
    reference: str, step: str | None, task: str | None, level: Level | None, follow: bool, output: str, db: str | None
) -> None:
    """Print what the tasks of an execution printed, and their errors.

    Each line begins with step/task, the iteration in brackets, and the attempt if it was not the first. With --follow,
    a server also sends what tasks print while they run: the newest lines, best effort.
    """

    async def print_logs(history: Records) -> None:
        from noetl.events.tasks import TaskProcessed
        from noetl.operations.executions import event_pages, followed_events
        from noetl.operations.results import LoadableValues, log_line, whole_payload
        from noetl.store.contract import EventFilter

        values = LoadableValues(place_meant(db).results())
        row = await find_execution(history, reference)
        await known_step(history, row, step)
        only = EventFilter(types=(TaskProcessed.event_type,), step=step)
        is_live = follow and output == "text"
        # Only as text: a program that reads JSON lines expects each task run once, complete.
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
        # No line has the requested level.
        return
    if output == "jsonl":
        click.echo(as_json(entry, indent=-1))
        return
    prefix = log_source(event.step or "", processed.path, processed.task, processed.attempt)
    for line in _lines(processed):
        click.echo(prefix + line)


def at_level(processed: TaskProcessed, least: Level | None) -> TaskProcessed:
    """A task run with only those lines of its output that have at least the level `least`."""
    stdout = processed.outcome.meta.stdout
    if least is None or not stdout:
        return processed
    import msgspec

    letters = levels_of(stdout)
    kept = [line for line, letter in zip(stdout.split("\n"), letters, strict=False) if is_at_least(letter, least)]
    meta = msgspec.structs.replace(processed.outcome.meta, stdout="\n".join(kept) or None)
    return msgspec.structs.replace(processed, outcome=msgspec.structs.replace(processed.outcome, meta=meta))


def log_source(step: str, path: Sequence[int], task: str, attempt: int) -> str:
    """The prefix of a line: step, iteration, task and attempt."""
    iteration = "".join(f"[{index}]" for index in path)
    attempt_text = f" #{attempt}" if attempt > 1 else ""
    return click.style(f"{visible(step)}{iteration}/{visible(task)}{attempt_text} │ ", dim=True)


def _lines(processed: TaskProcessed) -> Iterator[str]:
    from noetl.cli.live_text import WHOLE, detail_lines, error_line, printed

    outcome = processed.outcome
    if outcome.meta.stdout:
        yield from (printed(line) for line in outcome.meta.stdout.rstrip("\n").split("\n"))
    if outcome.error is not None:
        yield click.style("✗ error", fg="red") + f": {error_line(outcome.error, WHOLE)}"
        yield from (f"  {line}" for line in detail_lines(outcome.error))


# Server processes whose cursors are sent.
_SERVERS = 20


def live_output_of(
    history: Records, execution_id: str, step: str | None, task: str | None, level: Level | None
) -> LiveOutputPrinter | None:
    """A printer for the output of running tasks; None for a store, which has no live output."""
    source = live_output_source(history)
    return LiveOutputPrinter(source, execution_id, step, task, level) if source is not None else None


class LiveOutputPrinter:
    def __init__(
        self, history: RemoteRecords, execution_id: str, step: str | None, task: str | None, level: Level | None
    ) -> None:
        self._history, self._execution_id, self._step, self._task = history, execution_id, step, task
        self._level = level
        # By server process, since any of them may answer.
        self._cursors: dict[str, str] = {}
        # The printed lines of running task runs.
        self._shown: dict[str, list[str]] = {}
        # The number of lines that the server had dropped.
        self._missed: dict[str, int] = {}
        # Task runs whose complete output was printed; late lines of theirs are part of it.
        self._over: set[str] = set()

    async def show_new(self) -> None:
        """Print the lines that are new since the last call."""
        after = ",".join(list(self._cursors.values())[-_SERVERS:])
        page = await self._history.output(self._execution_id, after=after, step=self._step)
        if page is None:
            return
        self._cursors[page.cursor.partition(".")[0]] = page.cursor
        for run in page.tasks:
            if run.task_run_id not in self._over and self._task in (None, run.task):
                self._print(run)

    def _print(self, run: TaskOutputView) -> None:
        prefix = log_source(run.step, run.path, run.task, run.attempt)
        shown = self._shown.setdefault(run.task_run_id, [])
        missed = self._missed.get(run.task_run_id, 0)
        if (missing := run.total - len(shown) - len(run.lines) - missed) > 0:
            self._missed[run.task_run_id] = missed + missing
            click.echo(prefix + click.style(f"… {missing:,} lines are not shown here", dim=True))
        for line in run.lines:
            shown.append(line.text)
            if self._level is None or is_at_least(line.level, self._level):
                click.echo(prefix + printed(line.text))

    def not_shown(self, processed: TaskProcessed) -> TaskProcessed:
        """A task run without the lines that were printed while it ran; with all lines if some were missed."""
        shown = self._shown.pop(processed.task_run_id, [])
        self._over.add(processed.task_run_id)
        stdout = processed.outcome.meta.stdout
        if not shown or not stdout:
            return processed
        *whole, rest = split_lines(stdout)
        lines = [cut_line(line) for line in (*whole, rest)]
        # Some lines were lost or masked differently: printing everything again is better than an invisible gap.
        if lines[: len(shown)] != shown:
            return processed
        left = "\n".join((*whole, rest)[len(shown) :])
        meta = msgspec.structs.replace(processed.outcome.meta, stdout=left)
        return msgspec.structs.replace(processed, outcome=msgspec.structs.replace(processed.outcome, meta=meta))


# `noetl events`: the log of an execution, as it is stored or as it grows (EVT-02, EVT-05).

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
def events_command(
    reference: str,
    follow: bool,
    step: str | None,
    types: tuple[str, ...],
    after: int,
    names: Names,
    output: str,
    db: str | None,
) -> None:
    """Print the events of an execution.

    A line of text is: number, time, name, step, what it says. JSON has the whole envelope.
    """
    if follow and output == "json":
        raise click.UsageError("with --follow the output has no end, so it cannot be a JSON list: use -o jsonl")

    async def print_events(history: Records) -> None:
        from noetl.events.legacy_names import shown_event
        from noetl.operations.executions import event_pages, followed_events
        from noetl.store.contract import EventFilter

        row = await find_execution(history, reference)
        await known_step(history, row, step)
        stream = followed_events if follow else event_pages
        listed: list[dict[str, Any]] = []
        async for events in stream(history, row.execution_id, after=after, only=EventFilter(types=types, step=step)):
            for event in events:
                if output == "text":
                    click.echo(_line(event, names))
                elif output == "json":
                    listed.append(shown_event(event, names))
                else:
                    click.echo(as_json(shown_event(event, names), indent=-1))
        if output == "json":
            click.echo(as_json(listed))

    read(db, print_events)


def _name(event: Event, names: Names) -> str:
    if names == "dotted":
        return event.event_type
    from noetl.events.envelope import status_of
    from noetl.events.legacy_names import legacy_name

    return legacy_name(event.event_type, status_of(event.payload))


def _line(event: Event, names: Names) -> str:
    from noetl.events.envelope import status_of

    status = status_of(event.payload)
    moment = f"{time.strftime('%H:%M:%S', time.localtime(event.ts))}.{int(event.ts % 1 * 1000):03d}"
    name = click.style(f"{visible(_name(event, names)):{_NAME}}", fg=_COLORS.get(status))
    return f"{event.seq:>6}  {moment}  {name}  {visible(event.step or ''):{_STEP}}  {_event_words(event)}".rstrip()


def _event_words(event: Event) -> str:
    """The content of an event in a few words; `-o json` has ids and the envelope."""
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
            fields = {key: value for key, value in plain.items() if key not in _IDS and value not in (None, {}, [], "")}
            words = msgspec.json.encode(fields).decode() if fields else ""
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
