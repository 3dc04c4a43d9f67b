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

# Events kept before the snapshot applies them. Most executions are shorter and never pay for a second `evolve`.
KEPT = 64


class Snapshot:
    """An older state of an execution and the events stored since."""

    def __init__(self, execution: Execution) -> None:
        # Nothing is ever decided upon this object: `execution()` returns a copy.
        self._execution = execution
        self._since: list[Event] = []

    def add(self, events: Sequence[Event]) -> None:
        """Add the next events of the log."""
        self._since += events
        if len(self._since) > KEPT:
            self._move_on()

    def _move_on(self) -> None:
        since, self._since = self._since, []
        for event in since:
            evolve(self._execution, event)

    def execution(self) -> Execution:
        """A copy of the execution as the log has it, to decide upon."""
        # Applied to the snapshot first, then copied: replaying on the copy would repeat these events at every call.
        self._move_on()
        execution: Execution = mutable_copy(self._execution)
        return execution


def mutable_copy(state: Any) -> Any:
    """A copy that shares nothing which `evolve` changes. Frozen structs and the payloads below them are shared
    (EVT-07)."""
    match state:
        case msgspec.Struct():
            # Copying payloads would make a copy as expensive as the replay that it replaces.
            if state.__struct_config__.frozen:
                return state
            fields = {name: mutable_copy(getattr(state, name)) for name in state.__struct_fields__}
            # All fields by name, so that a field added to a struct later is copied too.
            return type(state)(**fields)
        case dict():
            return {key: mutable_copy(value) for key, value in state.items()}
        case list():
            return [mutable_copy(value) for value in state]
        case set():
            return set(state)  # members are hashable, and so immutable
        case bytearray():
            return bytearray(state)
        case _:
            return state
