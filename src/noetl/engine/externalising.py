"""Externalising: what a worker sent too large is stored apart by the server before anything is decided (RES-03).

A worker does this itself if it can. The server relies on no worker: whatever a report holds, the state and the log
never hold more than the limit of it.
"""

from __future__ import annotations

import msgspec

from noetl.engine.commands import RecordReport
from noetl.engine.plan import Plan
from noetl.pipeline.payloads import fitted_entry
from noetl.records.orders import Timed


def externalised(plan: Plan, command: RecordReport) -> RecordReport:
    """The command with every entry of its report as it may be recorded; the very same one when all of them fit."""
    entries = command.report.entries
    fitted = tuple(_fitted(plan, timed) for timed in entries)
    if all(new is old for new, old in zip(fitted, entries, strict=True)):
        return command
    return msgspec.structs.replace(command, report=msgspec.structs.replace(command.report, entries=fitted))


def _fitted(plan: Plan, timed: Timed) -> Timed:
    entry = fitted_entry(timed.entry, plan.max_payload_bytes, plan.keep)
    return timed if entry is timed.entry else Timed(timed.at, entry)
