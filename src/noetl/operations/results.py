"""What an execution gave: its result, those of its steps, its variables, and what its tasks printed (O-08, SRV-09).
Also the levels of what they printed.

All of it is read from the log, whether that is a server's own, a store's on this machine, or a server's far away. Large
values are stored apart from it: `StoredValues` brings them, a server's cache or whatever can load them at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from noetl.base.clock import rfc3339
from noetl.base.errors import NotEndedError
from noetl.engine.pipeline.patches import write
from noetl.engine.scopes import payload_of
from noetl.engine.waits import times
from noetl.engine.waits.evolution import given_by, result_with
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
from noetl.store.contract import ExecutionRow, History, Results, SingleRow

# Results as the log tells them, without replaying it: what a step gave, from the few events that say so (O-08).
#
# `evolve` comes to the same; this is for whoever looks at one step of a long execution.

_RUN_ENDS = (StepDone, StepFailed, LoopDone, StepInterrupted, StepTimeout)
_WAIT_ENDS = (MessageReceived, SignalReceived, TaskCompleted)
TELLING = tuple(kind.event_type for kind in (*_RUN_ENDS, *_WAIT_ENDS))
ENOUGH = 100  # of the newest of them: a wait ends after the pipeline before it, and others of its step in between


class EndedStep(msgspec.Struct, frozen=True):
    """How a step ended: with a result, or with an error."""

    result: TaskResult
    error: Error | None = None


def ended_in(events: Sequence[Event], step: str) -> EndedStep | None:
    """By the newest events of a step that tell (`TELLING`), in their order; None when it has not ended."""
    for position in range(len(events) - 1, -1, -1):
        found = _ended_step(events[position], events[:position], step)
        if found is not None:
            return found
    return None


def carried_in(request: Event, step: str) -> EndedStep | None:
    """What an execution was given of a step that ran in another one."""
    payload = request.payload
    assert isinstance(payload, ExecutionRequested)
    carried = payload.carried.results if payload.carried is not None else ()
    return next((EndedStep(one.result) for one in carried if one.step == step), None)


def _ended_step(event: Event, before: Sequence[Event], step: str) -> EndedStep | None:
    match event.payload:
        case StepDone(result=result):
            return EndedStep(result)
        case LoopDone() as done:
            return EndedStep(TaskResult(result=done.results, ref=done.ref))
        case StepFailed(error=error):
            return EndedStep(TaskResult(), error)
        case StepInterrupted(result=result):  # an error is its handler's, and its arcs' to read
            return EndedStep(result)
        case StepTimeout(action="alternative"):
            return EndedStep(TaskResult(), times.timed_out(step))
        case MessageReceived() | SignalReceived() | TaskCompleted() as payload:
            own = _own(event, before)
            return EndedStep(result_with(own, *given_by(payload))) if own is not None else None
        case _:
            return None


def _own(event: Event, before: Sequence[Event]) -> TaskResult | None:
    """What the pipeline gave before it waited; None for rules that heard of it, whose step ends later."""
    own = (one.payload for one in reversed(before) if one.step_run_id == event.step_run_id)
    return next((payload.result for payload in own if isinstance(payload, StepDone)), None)


Found = TypeVar("Found")
Recorded = TypeVar("Recorded", bound=Payload)
_PAGE = 2_000  # events read at a time
Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error", "critical")
NONE = "-"  # stands for a line without a level
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
# Colours of a terminal, which programs write around the level.
_STYLE = re.compile(r"\x1b\[[0-9;:]*m")
# `WARNING:shop:late`, `2026-01-02 03:04:05,678 - shop - ERROR - late`, `[ERROR] late`; `level=error`, `"level": "info"`
_CAPITALS = re.compile(rf"(?<![\w.-])(?:{_WORD})(?![\w.=-])")
_FIELD = re.compile(rf"""(?<!\w)["']?(?:level|levelname|severity)["']?\s*[=:]\s*["']?(?:{_WORD})\b""", re.IGNORECASE)
_ANY = re.compile(_WORD, re.IGNORECASE)
_HEAD = 120  # characters: a level stands before what is said
_BELONGS = re.compile(r"\s+\S|Traceback \(most recent call last\)|\w+(\.\w+)*(Error|Exception|Warning)\b")


class StoredValues(Protocol):
    async def read(self, look: Callable[[Load], Found]) -> Found:
        """What `look` finds, with all that it loads at hand."""


class LoadableValues:
    """Values that can be loaded at once: those of a store on this machine, or one request each."""

    def __init__(self, results: Results) -> None:
        self._results = results

    async def read(self, look: Callable[[Load], Found]) -> Found:
        return look(self._results.load)


class RecordedEnding(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended (completed, failed, cancelled), or one of its steps (done, failed)."""

    status: str
    result: Any = None
    error: Error | None = None

    def view(self, execution_id: str, step: str | None = None) -> ResultView:
        error = self.error.readable() if self.error is not None else None
        return ResultView(execution_id=execution_id, status=self.status, result=self.result, error=error, step=step)


async def execution_ending(history: History, values: StoredValues, row: ExecutionRow) -> RecordedEnding:
    """NotEndedError while it goes on. The result of one step is given as it is, that of several by their names."""
    end = await newest_event(history, row.execution_id, PlaybookProcessed.event_type)
    if end is None:
        raise NotEndedError(f"execution {row.execution_id} has not ended: it is {row.status}")
    processed = end.payload
    assert isinstance(processed, PlaybookProcessed)
    results = {name: (await step_ending(history, values, row, name)).result for name in processed.result_of}
    result = next(iter(results.values())) if len(results) == 1 else results or None
    return RecordedEnding(status=processed.status.value, result=result, error=processed.error)


async def step_ending(history: History, values: StoredValues, row: ExecutionRow, step: str) -> RecordedEnding:
    """How a step last ended; of one that did not run here, what the execution was given of it (CLI-04)."""
    ended = None
    # The newest alone tells how most steps ended. To look for more reads all of the history where there are no more.
    for limit in (1, ENOUGH):
        if ended is None:
            only = SingleRow(types=TELLING, step=step, limit=limit, newest=True)
            stored = await history.events(row.execution_id, only=only)
            events = [msgspec.structs.replace(one, payload=await whole_payload(one.payload, values)) for one in stored]
            ended = ended_in(events, step)
    if ended is None and (request := await newest_event(history, row.execution_id, ExecutionRequested.event_type)):
        ended = carried_in(request, step)
    if ended is None:
        raise NotEndedError(f'step "{step}" has not ended in execution {row.execution_id}')
    if ended.error is not None:
        return RecordedEnding(status="failed", error=ended.error)
    result = ended.result
    return RecordedEnding(status="done", result=await values.read(lambda load: payload_of(result, load)))


async def recorded_ctx(history: History, values: StoredValues, execution_id: str) -> dict[str, Any]:
    """The variables of an execution: now, or when it ended (SCOPE-03)."""
    ctx: dict[str, Any] = {}
    after, only = 0, SingleRow(types=(ExecutionRequested.event_type, CtxPatched.event_type), limit=_PAGE)
    while page := await history.events(execution_id, after=after, only=only):
        for event in page:
            if isinstance(event.payload, CtxPatched):
                write(ctx, (await whole_payload(event.payload, values)).patch)
            elif isinstance(event.payload, ExecutionRequested) and event.payload.carried is not None:
                carried = (await whole_payload(event.payload, values)).carried
                ctx = dict(carried.ctx) if carried is not None else {}
        after = page[-1].seq
    return ctx


def log_line(event: Event, processed: TaskProcessed) -> LogLine | None:
    """What a run of a task printed, and the error it ended with; None when there is neither."""
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
    """A payload with what is stored apart from it. ToolError where that is gone."""
    return await values.read(lambda load: put_back(payload, load)) if payload.apart else payload


async def newest_event(history: History, execution_id: str, *types: str, step: str | None = None) -> Event | None:
    found = await history.events(execution_id, only=SingleRow(types=types, step=step, limit=1, newest=True))
    return found[-1] if found else None


# Levels of log lines, found in their text: those of Python's logging, as it and most other programs write them.
#
# A line without a level that belongs to the one before it (it is indented, or a traceback) has the level of that one.


def level_of(line: str) -> Level | None:
    """The level that a line itself names."""
    head = _STYLE.sub("", line[: 2 * _HEAD])[:_HEAD]
    found = _CAPITALS.search(head) or _FIELD.search(head)
    return _NAMES[re.split(r"\W+", found.group().strip("\"' "))[-1].upper()] if found is not None else None


class LineLevels:
    """The level of each line, as lines come."""

    def __init__(self) -> None:
        self._last: Level | None = None

    def next(self, line: str) -> Level | None:
        level = level_of(line)
        if level is None and self._last is not None and _BELONGS.match(line):
            return self._last
        self._last = level
        return level


def levels_of(text: str | None) -> str:
    """A letter for each line of a text: d, i, w, e, c, or - where there is none. Empty where no line has one."""
    if not text or _ANY.search(text) is None:
        return ""
    levels = LineLevels()
    letters = "".join((levels.next(line) or NONE)[0] for line in text.split("\n"))
    return letters if letters.strip(NONE) else ""


def is_at_least(letter: str, least: Level) -> bool:
    """Whether a line of this letter has the level, or a graver one."""
    letters = [level[0] for level in LEVELS]
    return letter in letters[LEVELS.index(least) :]
