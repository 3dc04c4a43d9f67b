"""The outcome of a run, in a form that can be compared between places (WRK-08).

Where nothing ran beside anything else the order of all events counts. Elsewhere it counts within every step run and
every iteration, since the order of two concurrent events is not guaranteed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.events.envelope import Event
from noetl.events.loops import LoopStarted
from tests.narrowing import payload

_RUN_ENDS = ("token.consumed", "token.dropped")
_ITERATION_ENDS = ("loop.iteration.done", "loop.iteration.failed")


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """How a case ended in a place, and what it left there. `refused` is why it was not even begun: the findings, by
    line and code, or the words."""

    status: str = ""
    result: Any = None
    ctx: dict[str, Any] = {}
    error: str | None = None
    calls: list[str] = []
    rows: dict[str, list[Any]] = {}
    events: list[Event] = []
    refused: list[str] = []


def differences(told: Told, expected: Told) -> dict[str, Any]:
    """Where a run differs from the same run elsewhere: the observations here and there."""
    pairs = {
        name: (getattr(told, name), getattr(expected, name))
        for name in ("status", "result", "ctx", "error", "calls", "rows", "refused")
    }
    here, there = certain(told.events), certain(expected.events)
    counted = sequence if runs_apart(there) else by_run
    pairs["events"] = (counted(here), counted(there))
    return {name: narrowed(here, there) for name, (here, there) in pairs.items() if here != there}


def narrowed(here: Any, there: Any) -> Any:
    """Of two long lists only what surrounds the first difference."""
    if not isinstance(here, list) or not isinstance(there, list):
        return here, there
    shared = min(len(here), len(there))
    at = next((n for n, pair in enumerate(zip(here, there, strict=False)) if pair[0] != pair[1]), shared)
    return here[max(0, at - 2) : at + 4], there[max(0, at - 2) : at + 4]


def certain(events: Sequence[Event]) -> list[Event]:
    """All but the beginnings of tasks that were stopped: whether one is recorded before its step ended is not
    guaranteed."""
    ended = {event.task_run_id for event in events if event.event_type == "task.processed"}
    return [event for event in events if event.event_type != "task.started" or event.task_run_id in ended]


def sequence(events: Sequence[Event]) -> list[tuple[str | None, str]]:
    return [(event.step, event.event_type) for event in events]


def by_run(events: Sequence[Event]) -> list[Any]:
    """The names in order for each step run and iteration; those of no step run are counted."""
    runs: dict[str, dict[str, list[str]]] = {}
    steps: dict[str, str] = {}
    rest: Counter[str] = Counter()
    for event in events:
        if event.step_run_id is None:
            rest[f"{event.step} {event.event_type}"] += 1
            continue
        steps[event.step_run_id] = event.step or ""
        paths = runs.setdefault(event.step_run_id, {})
        paths.setdefault(str(path_of(event)), []).append(event.event_type)
    for paths in runs.values():
        if (own := paths.get("()", [])).count("loop.scheduled") > 1:
            own.sort()  # parts of a loop are handed out beside each other, too
    path_rows: list[Any] = sorted((steps[run_id], sorted(paths.items())) for run_id, paths in runs.items())
    return [*path_rows, *sorted(rest.items())]


def path_of(event: Event) -> tuple[int, ...]:
    """The iteration an event is of; of a token, `path` is the playbook's."""
    path = getattr(event.payload, "path", ())
    return tuple(path) if isinstance(path, tuple | list) else ()


def runs_apart(events: Sequence[Event]) -> bool:
    """Whether never two step runs, and never two iterations, were open at once."""
    open_runs: set[str | None] = set()
    open_iterations: set[Any] = set()
    for event in events:
        key = (event.step_run_id, path_of(event))
        match event.event_type:
            case "step.scheduled":
                open_runs.add(event.step_run_id)
            case name if name in _RUN_ENDS:
                open_runs.discard(event.step_run_id)
            case "loop.started" if payload(event, LoopStarted).parallel:
                return False
            case "loop.iteration.started":
                open_iterations.add(key)
            case name if name in _ITERATION_ENDS:
                open_iterations.discard(key)
        if len(open_runs) > 1 or len(open_iterations) > 1:
            return False
    return True
