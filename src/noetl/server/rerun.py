"""Running again from a step: what the new run takes over from the old one (CLI-04)."""

from __future__ import annotations

import asyncio

import msgspec

from noetl.control.nested.reruns import with_approvals
from noetl.engine.approvals import ApprovedInputs, Consent
from noetl.engine.rerun_state import rerun_state, why_not
from noetl.events.rerun_state import RerunState
from noetl.net.net import Net
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services
from noetl.server.views.states import whole_events


class RerunSource(msgspec.Struct, frozen=True, kw_only=True):
    """An execution, and the step of it to begin at."""

    execution_id: str
    step: str


async def taken_over(
    services: Services, net: Net, source: RerunSource, inputs: ApprovedInputs, consent: Consent
) -> RerunState:
    """Problem 422 says why there is nothing to begin with, RefusedError which approval does not hold for `inputs`."""
    if (why := why_not(net, source.step)) is not None:
        raise ProblemDetails(422, f"from: {why}", kind="from")
    row = await services.store.execution(source.execution_id)
    assert row is not None, "it was found by the request"
    events = await whole_events(services, row, await services.store.events(row.execution_id))
    found = await asyncio.to_thread(rerun_state, row.execution_id, row.trace_id, events, net, source.step)
    if found is None:
        raise ProblemDetails(422, f'from: that run never entered step "{source.step}"', kind="from")
    return await with_approvals(services.store, events, found, inputs, consent)
