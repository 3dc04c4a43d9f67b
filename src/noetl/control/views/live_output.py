"""Live output: the newest lines of each running task run, in the memory of one server.

Best effort: after a restart, or if the worker talks to another server, the lines are not here. The log of a task run is
in its `task.processed`. A task run that was stopped by a cancellation has none: its last lines stay here until others
need their room. Everything is bounded; dropped lines are counted.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import islice
from secrets import token_hex

import msgspec

from noetl.base.clock import Clock
from noetl.base.redaction import Mask, MaskedLines
from noetl.events.executions import Final
from noetl.events.orders import OutputChunk, OutputStream
from noetl.events.tasks import TaskProcessed
from noetl.store.contract import Commit, ExecutionRow

MAX_LINES = 1_000  # of one task run
MAX_CHARACTERS = 128 * 1024
MAX_RUNS = 2_000  # task runs that have printed something, on this server
MAX_TOTAL = 32 << 20  # characters of all of them
_LINE_COST = 200  # memory of a line besides its characters
_REMEMBERED = 1_000  # finished task runs whose last lines may still arrive


class OutputLine(msgspec.Struct, frozen=True):
    number: int  # in the order in which this server received them
    at: float
    stream: OutputStream
    text: str
    lease_epoch: int = 1


class LiveTaskRun:
    """The newest lines of one task run, and how many it has printed in all."""

    def __init__(self, of: OutputChunk, step: str, worker_id: str, mask: Mask) -> None:
        self.of, self.step, self.worker_id = of, step, worker_id
        self.lines: deque[OutputLine] = deque()
        self.total = self.size = 0
        self._mask, self._masked = mask, dict[OutputStream, MaskedLines]()

    def go_on_from(self, before: LiveTaskRun) -> None:
        """Keep what it printed under an earlier lease: it was lost there, and began again."""
        self.lines, self.total, self.size = before.lines, before.total, before.size

    def is_under(self, chunk: OutputChunk, worker_id: str) -> bool:
        """Whether a chunk has the same lease as the stored lines."""
        return (self.of.order_id, self.of.lease_epoch, self.worker_id) == (chunk.order_id, chunk.lease_epoch, worker_id)

    def masked(self, chunk: OutputChunk, mask: Mask) -> list[str]:
        """The lines, with secrets masked that only this server knows, also if a secret spans two requests."""
        self._mask.learn_all(mask)
        masked = self._masked.setdefault(chunk.stream, MaskedLines(self._mask))
        return masked.feed("".join(f"{line}\n" for line in chunk.lines))

    def add(self, line: OutputLine) -> None:
        self.lines.append(line)
        self.total += 1
        self.size += _LINE_COST + len(line.text)
        while len(self.lines) > MAX_LINES or self.size > MAX_CHARACTERS + MAX_LINES * _LINE_COST:
            self.size -= _LINE_COST + len(self.lines.popleft().text)


class LiveOutput:
    """`changed` is called with an execution that has new lines."""

    def __init__(self, clock: Clock, changed: Callable[[str], None] = lambda _: None) -> None:
        self._clock, self._changed = clock, changed
        self._runs: OrderedDict[str, LiveTaskRun] = OrderedDict()  # by task run, the one that printed last at the end
        self._over: OrderedDict[str, None] = OrderedDict()
        self._cost = 0
        self.number = 0
        self.era = token_hex(4)  # line numbers are valid only until this process ends

    def run(self, chunk: OutputChunk, worker_id: str) -> LiveTaskRun | None:
        """The task run of these lines, if it is known under the same lease."""
        found = self._runs.get(chunk.task_run_id)
        return found if found is not None and found.is_under(chunk, worker_id) else None

    def begin(self, chunk: OutputChunk, step: str, worker_id: str, mask: Mask) -> LiveTaskRun | None:
        """A task run under a held lease; lines of an earlier lease stay before its own. None if it has ended or
        belongs to another execution."""
        known = self._runs.get(chunk.task_run_id)
        # Lines are sent apart from reports and may come after the end of the task run. If stored, they would stay
        # forever, since the end comes only once.
        if chunk.task_run_id in self._over or (known is not None and known.of.execution_id != chunk.execution_id):
            return None
        self._forget(chunk.task_run_id)
        run = self._runs[chunk.task_run_id] = LiveTaskRun(chunk, step, worker_id, mask)
        if known is not None:
            run.go_on_from(known)
            self._cost += run.size
        return run

    def add(self, run: LiveTaskRun, chunk: OutputChunk, mask: Mask) -> None:
        """Keep the lines. `mask` is that of the execution as of now: it may have read secrets since the first lines."""
        before, at = run.size, self._clock.now()
        run.total += max(chunk.dropped, 0)
        for text in run.masked(chunk, mask):
            self.number += 1
            run.add(OutputLine(self.number, at, chunk.stream, text, chunk.lease_epoch))
        self._cost += run.size - before
        # The run that has been silent for longest is dropped first.
        self._runs.move_to_end(chunk.task_run_id)
        while len(self._runs) > MAX_RUNS or (self._cost > MAX_TOTAL and len(self._runs) > 1):
            self._forget(next(iter(self._runs)))
        self._changed(chunk.execution_id)

    def stored(self, commits: Sequence[Commit]) -> None:
        """A commit of this server: task runs whose end is in the log are no longer live."""
        if not self._runs:
            return
        for commit in commits:
            for event in commit.events:
                if isinstance(event.payload, TaskProcessed):
                    self._end(event.payload.task_run_id)
            if is_over(commit.execution):
                self.forget_execution(commit.execution.execution_id)

    def forget_execution(self, execution_id: str) -> None:
        for run in self.of_execution(execution_id):
            self._forget(run.of.task_run_id)

    def of_execution(self, execution_id: str) -> list[LiveTaskRun]:
        return [run for run in self._runs.values() if run.of.execution_id == execution_id]

    def _end(self, task_run_id: str) -> None:
        self._over[task_run_id] = None
        if len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)
        self._forget(task_run_id)

    def _forget(self, task_run_id: str) -> None:
        run = self._runs.pop(task_run_id, None)
        if run is not None:
            self._cost -= run.size


def is_over(execution: ExecutionRow) -> bool:
    """Whether the log has all that the tasks of an execution printed: it has ended, and no task was stopped in it."""
    return execution.finished_at is not None and execution.status != Final.CANCELLED


def lines_after(run: LiveTaskRun, number: int) -> list[OutputLine]:
    """The lines after a number, the oldest first."""
    # From the end: a reader polls, and most of the thousand lines are older than its number.
    newest_first = reversed(run.lines)
    found = 0
    for line in newest_first:
        if line.number <= number:
            break
        found += 1
    return list(islice(run.lines, len(run.lines) - found, None))
