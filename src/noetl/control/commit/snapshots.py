"""Snapshots: an execution as it was a little while ago, and the events recorded since (docs/decisions/0011).

Deciding changes an execution in place, and that cannot be undone. If a decision is not stored, because another
server was first, memory goes back to the snapshot and replays the events that came after: its own, and the tail of
the log. So meeting another server costs the same however long the history is (design.md §3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.engine.evolve import evolve
from noetl.engine.execution import Execution
from noetl.events.envelope import Event

KEPT = 64  # events before the snapshot moves on; most executions are shorter and never pay for a second evolve


class Snapshot:
    def __init__(self, execution: Execution) -> None:
        # Never given out and never decided upon: `execution()` gives a copy, so a decision cannot spoil what it goes
        # back to.
        self._execution = execution
        self._since: list[Event] = []

    def add(self, events: Sequence[Event]) -> None:
        """These are in the log, behind what it has."""
        self._since += events
        if len(self._since) > KEPT:
            self._move_on()

    def _move_on(self) -> None:
        since, self._since = self._since, []
        for event in since:
            evolve(self._execution, event)

    def execution(self) -> Execution:
        """The execution as the log has it, for somebody to decide upon."""
        # Moved first: the copy then needs no replay, and the next caller none of these events.
        self._move_on()
        own: Execution = copied(self._execution)
        return own


def copied(state: Any) -> Any:
    """A copy that shares nothing which `evolve` changes. What is frozen, and what a payload holds below it, it leaves
    as it is (EVT-07)."""
    match state:
        case msgspec.Struct():
            # Frozen values are shared. Copying payloads would make a copy as dear as the replay it replaces.
            if state.__struct_config__.frozen:
                return state
            fields = {name: copied(getattr(state, name)) for name in state.__struct_fields__}
            # By the constructor, so that a field added to a struct is copied without anybody thinking of it.
            return type(state)(**fields)
        case dict():
            return {key: copied(value) for key, value in state.items()}
        case list():
            return [copied(value) for value in state]
        case set():
            return set(state)  # what is in a set is hashable, and nobody changes it
        case bytearray():
            return bytearray(state)
        case _:
            return state
