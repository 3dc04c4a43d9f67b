"""Recording case runs: what a worker tells of its rules, retries and sinks becomes events of their own (C-13, V2C-24).

The notes travel with the task they follow from, so a repeated report adds them no second time (EVT-06).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from noetl.engine.decision import Draft, patch_ctx
from noetl.engine.execution import Execution, StepRun
from noetl.events.tasks import TaskProcessed
from noetl.events.v2_case_runs import CaseHeard, CaseStarted

Entry = TypeVar("Entry", TaskProcessed, CaseStarted)  # what a worker reports
Deciding = TypeVar("Deciding", TaskProcessed, CaseStarted, CaseHeard)


def without_notes(entry: Deciding) -> Deciding:
    """The entry as it is recorded: its notes are events beside it."""
    case = entry.decision.case
    if case is None or not case.notes:
        return entry
    decision = msgspec.structs.replace(entry.decision, case=msgspec.structs.replace(case, notes=()))
    return msgspec.structs.replace(entry, decision=decision)


def add_case(draft: Draft, execution: Execution, run: StepRun, heard: CaseHeard, **about: Any) -> None:
    """Record what a waiting step run decided in the server."""
    event = draft.add(without_notes(heard), run=run, **about)
    add_notes(draft, run, heard, event.event_id, on_behalf=True)
    if heard.decision.set_ctx:
        patch_ctx(draft, execution, run, heard.decision.set_ctx, parent_id=event.event_id)


def add_notes(
    draft: Draft, run: StepRun, entry: TaskProcessed | CaseStarted | CaseHeard, event_id: str, **about: Any
) -> None:
    """Tell what followed from the entry recorded as `event_id`."""
    case, path = entry.decision.case, getattr(entry, "path", ())
    for note in case.notes if case else ():
        told = msgspec.structs.replace(note, path=path) if path else note
        draft.add(told, run=run, **{**about, "parent_id": event_id})
