"""What tasks print while they run, for `noetl logs --follow`: lines as a server hears of them, each shown once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from noetl.base.redaction import cut_line, split_lines
from noetl.cli.connection import live_output_source
from noetl.cli.live_text import printed
from noetl.cli.logs import log_source
from noetl.operations.log_levels import Level, is_at_least

if TYPE_CHECKING:
    from noetl.client.history import RemoteRecords
    from noetl.events.tasks import TaskProcessed
    from noetl.operations.api_shapes import TaskOutputView
    from noetl.store.contract import Records


_SERVERS = 20  # processes whose cursors are told


def live_output_of(
    history: Records, execution_id: str, step: str | None, task: str | None, level: Level | None
) -> LiveOutputPrinter | None:
    """None where no lines are kept while a task runs."""
    source = live_output_source(history)
    return LiveOutputPrinter(source, execution_id, step, task, level) if source is not None else None


class LiveOutputPrinter:
    def __init__(
        self, history: RemoteRecords, execution_id: str, step: str | None, task: str | None, level: Level | None
    ) -> None:
        self._history, self._execution_id, self._step, self._task = history, execution_id, step, task
        self._level = level
        self._cursors: dict[str, str] = {}  # by process of the server: which one answers, nobody knows before
        self._shown: dict[str, list[str]] = {}  # by task run that goes on
        self._missed: dict[str, int] = {}  # lines of it that never came here
        self._over: set[str] = set()

    async def show_new(self) -> None:
        """Print the lines that have come since the last time."""
        after = ",".join(list(self._cursors.values())[-_SERVERS:])
        page = await self._history.output(self._execution_id, after=after, step=self._step)
        if page is None:
            return
        self._cursors[page.cursor.partition(".")[0]] = page.cursor
        for run in page.tasks:
            if run.task_run_id not in self._over and self._task in (None, run.task):
                self._print(run)

    def _print(self, run: TaskOutputView) -> None:
        whose = log_source(run.step, run.path, run.task, run.attempt)
        shown = self._shown.setdefault(run.task_run_id, [])
        missed = self._missed.get(run.task_run_id, 0)
        if (missing := run.total - len(shown) - len(run.lines) - missed) > 0:
            self._missed[run.task_run_id] = missed + missing
            click.echo(whose + click.style(f"… {missing:,} lines are not shown here", dim=True))
        for line in run.lines:
            shown.append(line.text)
            if self._level is None or is_at_least(line.level, self._level):
                click.echo(whose + printed(line.text))

    def not_shown(self, processed: TaskProcessed) -> TaskProcessed:
        """What a task run printed without the lines that were shown while it ran; all of it where some are missing."""
        shown = self._shown.pop(processed.task_run_id, [])
        self._over.add(processed.task_run_id)
        stdout = processed.outcome.meta.stdout
        if not shown or not stdout:
            return processed
        *whole, rest = split_lines(stdout)
        lines = [cut_line(line) for line in (*whole, rest)]
        if lines[: len(shown)] != shown:
            return processed
        left = "\n".join((*whole, rest)[len(shown) :])
        meta = msgspec.structs.replace(processed.outcome.meta, stdout=left)
        return msgspec.structs.replace(processed, outcome=msgspec.structs.replace(processed.outcome, meta=meta))
