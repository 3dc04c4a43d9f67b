"""Results of executions and steps, variables, and the output of tasks with its log levels (O-08, SRV-09).

All of it is read from the event log of a store, or of a server through its API. Large values are stored apart from the
log: a `StoredValues` loads them, from a server's cache or directly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from noetl.base.clock import rfc3339
from noetl.base.errors import NotEndedError
from noetl.engine.pipeline.patches import apply_patch
from noetl.engine.scopes import payload_of
from noetl.engine.waits import times
from noetl.engine.waits.evolution import result_after_wait, value_of_wait
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested, PlaybookProcessed
from noetl.events.large_values import Load, put_back
from noetl.events.loops import LoopDone
from noetl.events.outcomes import Error, TaskResult
from noetl.events.payloads import Payload
from noetl.events.side_runs import StepInterrupted
from noetl.events.steps import CtxPatched, StepDone, StepFailed
from noetl.events.tasks import TaskProcessed
from noetl.events.waits import MessageReceived, SignalReceived, StepTimeout, TaskCompleted
from noetl.operations.api_shapes import LogLine, ResultView
from noetl.store.contract import EventFilter, ExecutionRow, History, Results

# The result of one step, from the few events that determine it, without replaying the log (O-08). `evolve` computes the
# same result; this is the quick way to look at one step of a long execution.

# The events that a step's result may come from: its pipeline, its loop, its handler, its timeout, or its wait.
_RUN_ENDS = (StepDone, StepFailed, LoopDone, StepInterrupted, StepTimeout)
_WAIT_ENDS = (MessageReceived, SignalReceived, TaskCompleted)
STEP_END_TYPES = tuple(kind.event_type for kind in (*_RUN_ENDS, *_WAIT_ENDS))
# How many of the newest are read: between the end of a wait and the end of the pipeline before it, other runs of the
# same step may have ended.
MAX_STEP_ENDS = 100


class EndedStep(msgspec.Struct, frozen=True):
    """How a step ended: with a result, or with an error."""

    result: TaskResult
    error: Error | None = None


def step_end(events: Sequence[Event], step: str) -> EndedStep | None:
    """How a step ended, from its newest events of `STEP_END_TYPES` in log order; None if it has not ended."""
    for position in range(len(events) - 1, -1, -1):
        end = _ended_step(events[position], events[:position], step)
        if end is not None:
            return end
    return None


def carried_step_end(request: Event, step: str) -> EndedStep | None:
    """The result of a step that a rerun carried over from another execution."""
    payload = request.payload
    assert isinstance(payload, ExecutionRequested)
    carried = payload.carried.results if payload.carried is not None else ()
    return next((EndedStep(carried_result.result) for carried_result in carried if carried_result.step == step), None)


def _ended_step(event: Event, before: Sequence[Event], step: str) -> EndedStep | None:
    match event.payload:
        case StepDone(result=result):
            return EndedStep(result)
        case LoopDone() as done:
            return EndedStep(TaskResult(result=done.results, ref=done.ref, of_loop=True))
        case StepFailed(error=error):
            return EndedStep(TaskResult(), error)
        # An interrupted step has a result, not an error: its handler's arcs read the error.
        case StepInterrupted(result=result):
            return EndedStep(result)
        case StepTimeout(action="alternative"):
            return EndedStep(TaskResult(), times.timeout_error(step))
        case MessageReceived() | SignalReceived() | TaskCompleted() as payload:
            own = _pipeline_result(event, before)
            return EndedStep(result_after_wait(own, *value_of_wait(payload))) if own is not None else None
        case _:
            return None


def _pipeline_result(event: Event, before: Sequence[Event]) -> TaskResult | None:
    """The result of the pipeline before its wait; None for case rules that listen to the event, whose step ends
    later."""
    payloads = (earlier.payload for earlier in reversed(before) if earlier.step_run_id == event.step_run_id)
    return next((payload.result for payload in payloads if isinstance(payload, StepDone)), None)


Value = TypeVar("Value")
Recorded = TypeVar("Recorded", bound=Payload)
_PAGE = 2_000  # events read at a time
Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error", "critical")
NONE = "-"  # the letter of a line without a level
_NAMES: dict[str, Level] = {
    "DEBUG": "debug",
    "TRACE": "debug",
    "INFO": "info",
    "NOTICE": "info",
    "WARN": "warning",
    "WARNING": "warning",
    "ERROR": "error",
    "SEVERE": "error",
    "CRITICAL": "critical",
    "FATAL": "critical",
}
_WORD = "|".join(_NAMES)
# Terminal colours: programs often write them around the level.
_STYLE = re.compile(r"\x1b\[[0-9;:]*m")
# `WARNING:shop:late`, `2026-01-02 03:04:05,678 - shop - ERROR - late`, `[ERROR] late`; `level=error`, `"level": "info"`
_CAPITALS = re.compile(rf"(?<![\w.-])(?:{_WORD})(?![\w.=-])")
_FIELD = re.compile(rf"""(?<!\w)["']?(?:level|levelname|severity)["']?\s*[=:]\s*["']?(?:{_WORD})\b""", re.IGNORECASE)
_ANY = re.compile(_WORD, re.IGNORECASE)
# Only the first characters are searched: a level comes before the text of the message.
_HEAD = 120
# Lines that continue the line before: indented ones, and those of a traceback.
_BELONGS = re.compile(r"\s+\S|Traceback \(most recent call last\)|\w+(\.\w+)*(Error|Exception|Warning)\b")


class StoredValues(Protocol):
    async def read(self, compute: Callable[[Load], Value]) -> Value:
        """The result of `compute`, with the stored values that it loads."""


class ResultValues(StoredValues, Protocol):
    async def payload(self, result: TaskResult) -> Any:
        """The payload of a result. A server gives a large one as `msgspec.Raw`, as it is stored."""


class LoadableValues:
    """Values that are loaded directly: from a store on this machine, or with one request each."""

    def __init__(self, results: Results) -> None:
        self._results = results

    async def read(self, compute: Callable[[Load], Value]) -> Value:
        return compute(self._results.load)

    async def payload(self, result: TaskResult) -> Any:
        return payload_of(result, self._results.load)


class RecordedEnding(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended (completed, failed, cancelled), or one of its steps (done, failed)."""

    status: str
    result: Any = None
    error: Error | None = None

    def view(self, execution_id: str, step: str | None = None) -> ResultView:
        error = self.error.readable() if self.error is not None else None
        return ResultView(execution_id=execution_id, status=self.status, result=self.result, error=error, step=step)


async def execution_ending(history: History, values: ResultValues, row: ExecutionRow) -> RecordedEnding:
    """How an execution ended; NotEndedError while it runs. If several steps have a result, it is an object by step
    name; a single result is returned as it is."""
    end = await newest_event(history, row.execution_id, PlaybookProcessed.event_type)
    if end is None:
        raise NotEndedError(f"execution {row.execution_id} has not ended: it is {row.status}")
    processed = end.payload
    assert isinstance(processed, PlaybookProcessed)
    results = {name: (await step_ending(history, values, row, name)).result for name in processed.result_of}
    result = next(iter(results.values())) if len(results) == 1 else results or None
    return RecordedEnding(status=processed.status.value, result=result, error=processed.error)


async def step_ending(history: History, values: ResultValues, row: ExecutionRow, step: str) -> RecordedEnding:
    """How a step last ended. For a step that did not run here, the result that a rerun carried over (CLI-04)."""
    ended = None
    # Try the newest event alone first: it is enough for most steps, and a search for 100 may read the whole log.
    for limit in (1, MAX_STEP_ENDS):
        if ended is None:
            selection = EventFilter(types=STEP_END_TYPES, step=step, limit=limit, newest=True)
            stored = await history.events(row.execution_id, only=selection)
            events = [
                msgspec.structs.replace(event, payload=await whole_payload(event.payload, values)) for event in stored
            ]
            ended = step_end(events, step)
    if ended is None and (request := await newest_event(history, row.execution_id, ExecutionRequested.event_type)):
        ended = carried_step_end(request, step)
    if ended is None:
        raise NotEndedError(f'step "{step}" has not ended in execution {row.execution_id}')
    if ended.error is not None:
        return RecordedEnding(status="failed", error=ended.error)
    return RecordedEnding(status="done", result=await values.payload(ended.result))


async def recorded_ctx(history: History, values: StoredValues, execution_id: str) -> dict[str, Any]:
    """The variables of an execution: now, or when it ended (SCOPE-03)."""
    ctx: dict[str, Any] = {}
    after, only = 0, EventFilter(types=(ExecutionRequested.event_type, CtxPatched.event_type), limit=_PAGE)
    while page := await history.events(execution_id, after=after, only=only):
        for event in page:
            if isinstance(event.payload, CtxPatched):
                apply_patch(ctx, (await whole_payload(event.payload, values)).patch)
            elif isinstance(event.payload, ExecutionRequested) and event.payload.carried is not None:
                carried = (await whole_payload(event.payload, values)).carried
                ctx = dict(carried.ctx) if carried is not None else {}
        after = page[-1].seq
    return ctx


def log_line(event: Event, processed: TaskProcessed) -> LogLine | None:
    """The output of a run of a task, and its error; None without both."""
    stdout, error = processed.outcome.meta.stdout, processed.outcome.error
    if not stdout and error is None:
        return None
    return LogLine(
        seq=event.seq,
        ts=rfc3339(event.ts),
        step=event.step,
        task=processed.task,
        path=list(processed.path),
        attempt=processed.attempt,
        stdout=stdout,
        error=error.readable() if error is not None else None,
        task_run_id=processed.task_run_id,
        levels=levels_of(stdout),
    )


async def whole_payload(payload: Recorded, values: StoredValues) -> Recorded:
    """A payload with its large values, which are stored apart. ToolError if one was deleted."""
    return await values.read(lambda load: put_back(payload, load)) if payload.apart else payload


async def newest_event(history: History, execution_id: str, *types: str, step: str | None = None) -> Event | None:
    events = await history.events(execution_id, only=EventFilter(types=types, step=step, limit=1, newest=True))
    return events[-1] if events else None


# Log levels, found in the text of lines: those of Python's logging, in the spellings that it and most programs use.
#
# A line without a level that continues the line before it (indented, or of a traceback) has the level of that line.


def level_of(line: str) -> Level | None:
    """The level that a line itself names."""
    # Take twice as many characters before removing colours: codes may be as long as the text they surround.
    head = _STYLE.sub("", line[: 2 * _HEAD])[:_HEAD]
    # Only capitals, or a field: the word "error" in a sentence is not a level.
    match = _CAPITALS.search(head) or _FIELD.search(head)
    return _NAMES[re.split(r"\W+", match.group().strip("\"' "))[-1].upper()] if match is not None else None


class LineLevels:
    """Determines the level of each line of a stream, in order."""

    def __init__(self) -> None:
        self._last: Level | None = None

    def next(self, line: str) -> Level | None:
        level = level_of(line)
        if level is None and self._last is not None and _BELONGS.match(line):
            return self._last
        self._last = level
        return level


def levels_of(text: str | None) -> str:
    """A letter for each line of a text: d, i, w, e, c, or - without a level. Empty if no line has a level."""
    if not text or _ANY.search(text) is None:
        return ""
    levels = LineLevels()
    letters = "".join((levels.next(line) or NONE)[0] for line in text.split("\n"))
    return letters if letters.strip(NONE) else ""


def is_at_least(letter: str, least: Level) -> bool:
    """Whether a line with this letter has at least the level `least`."""
    letters = [level[0] for level in LEVELS]
    return letter in letters[LEVELS.index(least) :]


class LogFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of the logs are wanted; all of them by default."""

    task: str | None = None
    # a text in the step, the task, the output or the error, in capitals or not
    find: str = ""
    # only task runs that failed
    failed: bool = False
    # of an iteration, "3" or "3.5"; empty for all
    path: str = ""
    # entries with a line of this level or a graver one, and those that failed
    level: Level | None = None

    def admits(self, line: LogLine) -> bool:
        """Whether the entry may be wanted, by what is known before its stored values are read."""
        is_wanted = self.task in (None, line.task) and (not self.failed or line.error is not None)
        return is_wanted and self.path in ("", ".".join(map(str, line.path)))

    def matches(self, line: LogLine) -> bool:
        if self.level is not None and line.error is None:
            level = self.level
            if not any(is_at_least(letter, level) for letter in line.levels):
                return False
        if not self.find:
            return True
        error = line.error or {}
        words = (line.step or "", line.task, _STYLE.sub("", line.stdout or ""), str(error.get("message") or ""))
        return self.find.lower() in " ".join(words).lower()
