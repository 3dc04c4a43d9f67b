"""Recording case runs: what a worker tells of its rules, retries and sinks becomes events of their own (C-13, V2C-24).

The notes travel with the task they follow from, so a repeated report adds them no second time (EVT-06).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from noetl.engine.decision import Draft
from noetl.engine.execution import StepRun
from noetl.ids import derived
from noetl.records.events import CaseStarted, TaskProcessed

Entry = TypeVar("Entry", TaskProcessed, CaseStarted)


def without_notes(entry: Entry) -> Entry:
    """The entry as it is recorded: its notes are events beside it."""
    case = entry.decision.case
    if case is None or not case.notes:
        return entry
    decision = msgspec.structs.replace(entry.decision, case=msgspec.structs.replace(case, notes=()))
    return msgspec.structs.replace(entry, decision=decision)


def add_notes(draft: Draft, run: StepRun, entry: TaskProcessed | CaseStarted, event_id: str, **about: Any) -> None:
    """Tell what followed from the entry recorded as `event_id`."""
    case = entry.decision.case
    for ordinal, note in enumerate(case.notes if case else ()):
        told = msgspec.structs.replace(note, path=entry.path) if entry.path else note
        draft.add(told, run=run, event_id=derived(event_id, "note", ordinal), **{**about, "parent_id": event_id})
