"""Which executions are trials: drafts, which ran a text that is not registered, and tests of a single step.

No row says so: a draft is pinned to a net like every execution, and its text may be registered later. The catalogue
knows the nets of all registered versions.
"""

from __future__ import annotations

from collections.abc import Iterable

from noetl.operations.api_shapes import ExecutionView
from noetl.operations.step_tests import PATH_ENDING
from noetl.server.services import Services
from noetl.store.contract import ExecutionRow

DRAFT, STEP_TEST = "draft", "step-test"
_MOST_KNOWN = 10_000  # nets that are remembered as registered


async def execution_views(services: Services, rows: Iterable[ExecutionRow]) -> list[ExecutionView]:
    """The rows as a list shows them, with what kind of trial each is."""
    return [ExecutionView(**row.readable(), trial=await trial_of(services, row)) for row in rows]


async def trial_of(services: Services, row: ExecutionRow) -> str | None:
    """draft | step-test; None for a run of a registered playbook."""
    known = services.registered_nets
    if (row.path, row.net_hash) in known:
        return None
    if row.path.endswith(PATH_ENDING):
        return STEP_TEST
    versions = await services.store.catalog.versions(row.path)
    if len(known) > _MOST_KNOWN:
        known.clear()
    # Only what is registered is remembered: a draft may be registered at any time.
    known.update((row.path, version.net_hash) for version in versions)
    return None if (row.path, row.net_hash) in known else DRAFT
