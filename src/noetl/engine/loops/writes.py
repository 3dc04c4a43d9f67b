"""What iterations write to `ctx`: at once when they run one after another, once each when they run at the same time
(SCOPE-05, SCOPE-06, O-15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl.engine.loops.state import LoopRun, Write
from noetl.engine.pipeline.patches import put_last
from noetl.events.loops import Path


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


class Ledger:
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
        mine: dict[str, Write] = {}
        for patch in patches:
            for key, value in patch.items():
                # Two iterations of one report may contradict each other before either is in the state.
                old = self._fresh.get(key) or region.writes.get(key)
                if key in loop.reducers:
                    continue
                # The same value twice is no contradiction (O-15).
                if old is not None and old.path[: frame.strand] != path[: frame.strand] and old.value != value:
                    return key
                mine[key] = Write(path, value)
        self._fresh |= mine
        return None


def settled(writes: Mapping[str, Write]) -> dict[str, Any]:
    """One patch of all writes, in iteration order."""
    in_order = sorted(writes.items(), key=lambda item: item[1].path)
    return {key: write.value for key, write in in_order}
