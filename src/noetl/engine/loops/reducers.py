"""Reducers: contributions of iterations, folded in iteration order on top of what was there (LOOP-14, V2E-07). Also
what iterations write to `ctx` without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from noetl.base.errors import ToolError
from noetl.engine.loops.state import LoopRun, Write
from noetl.engine.pipeline.patches import patched, put_last
from noetl.events.loops import Path

KIND = "loop.reduce"  # the error of contributions that an operation cannot take
_Fold = Callable[[Any, list[Any]], Any]


def fold(op: str, previous: Any, values: list[Any]) -> Any:
    """`values` folded by `op` on top of `previous`, which may be null. ToolError where they do not fit."""
    try:
        return _OPS[op](previous, values)
    except (TypeError, ValueError) as problem:
        raise ToolError(KIND, f"{op} cannot fold these contributions: {problem}") from None


def fold_all(
    start: Mapping[str, Any], reducers: Mapping[str, str], contributions: Mapping[str, Iterable[Any]]
) -> dict[str, Any]:
    """The patch that all contributions make, on top of the values in `start`."""
    patch = {}
    for key, values in contributions.items():
        try:
            patch[key] = fold(reducers[key], _at(start, key), list(values))
        except ToolError as problem:
            raise ToolError(KIND, f'"{key}": {problem.message}') from None
    return patch


def with_shared(start: Mapping[str, Any], shared: Mapping[str, Iterable[tuple[str, Any]]]) -> dict[str, Any]:
    """`vars` with every `set_shared` folded in, each with its own operation (V2E-07)."""
    values = dict(start)
    for key, contributions in shared.items():
        for op, value in contributions:
            values = patched(values, {key: fold(op, _at(values, key), [value])})
    return values


def shared_write(written_: Any) -> tuple[str, Any]:
    """`{op, value}`, or a plain value, which means `last`."""
    if isinstance(written_, dict) and "value" in written_ and set(written_) <= {"op", "value"}:
        return str(written_.get("op") or "last"), written_["value"]
    return "last", written_


def _at(data: Mapping[str, Any], key: str) -> Any:
    value: Any = data
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _numbers(values: Iterable[Any]) -> list[Any]:
    found = [value for value in values if value is not None]
    for value in found:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{value!r} is not a number")
    return found


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _sum(previous: Any, values: list[Any]) -> Any:
    return sum(_numbers([previous, *values]))


def _count(previous: Any, values: list[Any]) -> Any:
    return sum(_numbers([previous])) + len(values)


def _extreme(choose: Callable[[list[Any]], Any]) -> _Fold:
    def fold(previous: Any, values: list[Any]) -> Any:
        found = [value for value in (previous, *values) if value is not None]
        return choose(found) if found else None

    return fold


def _extend(previous: Any, values: list[Any]) -> Any:
    return [*_list(previous), *(item for value in values for item in _list(value))]


def _union(previous: Any, values: list[Any]) -> Any:
    """Each value once, in the order they came; a list contributes its items."""
    union: list[Any] = []
    seen: set[Any] = set()
    items = (item for value in values for item in (value if isinstance(value, list) else [value]))
    for item in (*_list(previous), *items):
        plain = isinstance(item, str | int | float | None)
        if (plain and (type(item), item) in seen) or (not plain and item in union):
            continue
        if plain:
            seen.add((type(item), item))
        union.append(item)
    return union


def _merge(previous: Any, values: list[Any]) -> Any:
    merged: dict[str, Any] = {}
    for value in (previous, *values):
        if value is not None and not isinstance(value, dict):
            raise TypeError(f"{value!r} is not a mapping")
        merged |= value or {}
    return merged


_OPS: dict[str, _Fold] = {
    "sum": _sum,
    "count": _count,
    "min": _extreme(min),
    "max": _extreme(max),
    "append": lambda previous, values: [*_list(previous), *values],
    "extend": _extend,
    "union": _union,
    "merge": _merge,
    "first": lambda previous, values: previous if previous is not None or not values else values[0],
    "last": lambda previous, values: values[-1] if values else previous,
    "any": lambda previous, values: any((previous, *values)),
    "all": lambda previous, values: all(values if previous is None else (previous, *values)),
}


# Writes of iterations to `ctx`: at once when they run one after another, once each when they run at the same time
# (SCOPE-05, SCOPE-06, O-15).


def note_writes(loop: LoopRun, path: Path, patch: Mapping[str, Any]) -> None:
    """Remember what an iteration wrote: contributions always, the rest where it waits for the end of its region.
    Sequential loops write straight to `ctx`, which its own events tell."""
    frame = loop.frames[path[:-1]]
    region, strand = loop.region_of(frame), path[: frame.strand]
    for key, value in patch.items():
        if key in loop.reducers:
            loop.contributions.setdefault(key, []).append(Write(path, value))
        elif region is not None:
            old = region.writes.get(key)
            # Same strand: a later write of the same iteration replaces its own. With `last_wins` the order of
            # iterations decides, not that of arrival, so a replay ends the same.
            if old is None or old.path[: frame.strand] == strand or (region.last_wins and old.path <= path):
                put_last(region.writes, key, Write(path, value))
            own = loop.begun[path].writes if strand == path else region.own.setdefault(strand, {})
            put_last(own, key, value)


class ConflictCheck:
    """The writes of one report, on top of what the state knows, to find those that contradict others (SCOPE-05)."""

    def __init__(self, loop: LoopRun) -> None:
        self._loop = loop
        self._fresh: dict[str, Write] = {}

    def conflict(self, path: Path, patches: Iterable[Mapping[str, Any]]) -> str | None:
        """The key that an iteration may not write, since another one wrote a different value; else note them all."""
        loop, frame = self._loop, self._loop.frames[path[:-1]]
        region = loop.region_of(frame)
        if region is None or region.last_wins:
            return None
        own_writes: dict[str, Write] = {}
        for patch in patches:
            for key, value in patch.items():
                # Two iterations of one report may contradict each other before either is in the state.
                old = self._fresh.get(key) or region.writes.get(key)
                if key in loop.reducers:
                    continue
                # The same value twice is no contradiction (O-15).
                if old is not None and old.path[: frame.strand] != path[: frame.strand] and old.value != value:
                    return key
                own_writes[key] = Write(path, value)
        self._fresh |= own_writes
        return None


def merged_writes(writes: Mapping[str, Write]) -> dict[str, Any]:
    """One patch of all writes, in iteration order."""
    in_order = sorted(writes.items(), key=lambda item: item[1].path)
    return {key: write.value for key, write in in_order}
