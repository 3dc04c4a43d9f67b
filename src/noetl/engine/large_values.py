"""What a worker sent too large is stored apart by the server before anything is decided (RES-03).

A worker does this itself if it can. The server relies on no worker: whatever a report holds, the state and the log
never hold more than the limit of it.
"""

from __future__ import annotations

import msgspec

from noetl.engine.commands import RecordReport
from noetl.engine.pipeline.payloads import fitted_entry
from noetl.engine.plan import Plan
from noetl.events.orders import Timed


def externalised(plan: Plan, command: RecordReport) -> RecordReport:
    """The command with every entry of its report as it may be recorded; the very same one when all of them fit."""
    limit_bytes, keep = plan.max_payload_bytes, plan.keep
    changed: dict[int, Timed] = {}
    for index, timed in enumerate(command.report.entries):
        entry = fitted_entry(timed.entry, limit_bytes, keep)
        if entry is not timed.entry:
            changed[index] = Timed(timed.at, entry)
    if not changed:
        return command
    entries = tuple(changed.get(index, timed) for index, timed in enumerate(command.report.entries))
    return msgspec.structs.replace(command, report=msgspec.structs.replace(command.report, entries=entries))
