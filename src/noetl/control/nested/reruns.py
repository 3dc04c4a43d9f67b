"""Reruns from a step: what the new run takes over from the old one (CLI-04), which recorded approvals it relies on, and
whether it may (HUM-05).

Servers and the command line on a store ask here, so that both follow the same rule.
"""

from __future__ import annotations

import asyncio

import msgspec

from noetl.base.errors import NoRerunError
from noetl.engine.rerun_state import (
    APPROVAL_EVENTS,
    ApprovedInputs,
    Consent,
    approvals_in,
    kept_iterations,
    rerun_state,
    reused_approvals,
    why_not,
)
from noetl.events.envelope import Event
from noetl.events.executions import Approval, ExecutionRequested, RerunState
from noetl.events.loops import IterationFailed
from noetl.net.net import Net
from noetl.store.contract import ExecutionRow, History, SingleRow


async def state_at_step(
    history: History,
    row: ExecutionRow,
    step: str,
    events: list[Event],
    net: Net,
    now: ApprovedInputs,
    consent: Consent,
    *,
    failed_items: bool = False,
) -> RerunState:
    """What a run of `net` begins with at `step`. `events` are those of the old run, whole. With `failed_items` it keeps
    the results of the items that were done. NoRerunError says why there is nothing to begin with, RefusedError which
    approval does not hold for `now`."""
    if (why := why_not(net, step)) is not None:
        raise NoRerunError(why)
    # In a thread: a long log takes a while, and a server has others to answer.
    found = await asyncio.to_thread(rerun_state, row.execution_id, row.trace_id, events, net, step)
    if found is None:
        raise NoRerunError(f'execution {row.execution_id} never entered step "{step}"')
    if failed_items:
        kept, until = await asyncio.to_thread(kept_iterations, events, net, step, found.at)
        found = msgspec.structs.replace(found, kept=kept)
        return await _with_approvals(history, events, found, now, consent, until=until)
    return await _with_approvals(history, events, found, now, consent)


async def _with_approvals(
    history: History,
    events: list[Event],
    carried: RerunState,
    now: ApprovedInputs,
    consent: Consent,
    *,
    until: int | None = None,
) -> RerunState:
    """What is carried over, with the approvals it relies on: those of before event `until`, where something later than
    the entry of the step is kept. RefusedError where the inputs are others than those that
    were approved, and `consent` does not cover it."""
    request = events[0].payload
    assert isinstance(request, ExecutionRequested), "every stream begins with its request (SRV-01)"
    last = events[(until or carried.at) - 1]
    found = approvals_in(events[: last.seq]) + await _nested_approvals(history, carried.execution_id, last.ts)
    before = ApprovedInputs(net_hash=request.net_hash, payload=request.payload)
    return msgspec.structs.replace(carried, approvals=reused_approvals(found, before, now, consent))


async def _nested_approvals(history: History, execution_id: str, until: float) -> tuple[Approval, ...]:
    """What people had approved by that moment in executions that this one started, however deep."""
    found: tuple[Approval, ...] = ()
    for child in await history.children(execution_id):
        events = await history.events(child.execution_id, only=SingleRow(types=APPROVAL_EVENTS))
        found += approvals_in(event for event in events if event.ts <= until)
        found += await _nested_approvals(history, child.execution_id, until)
    return found


async def failed_loops(history: History, execution_id: str) -> list[str]:
    """The steps with iterations that failed, in the order in which they did."""
    events = await history.events(execution_id, only=SingleRow(types=(IterationFailed.event_type,)))
    return list(dict.fromkeys(event.step for event in events if event.step is not None))


def only_failed_loop(steps: list[str], execution_id: str) -> str:
    """NoRerunError where there is none, or more than one."""
    if len(steps) == 1:
        return steps[0]
    if not steps:
        raise NoRerunError(f"no item of a loop has failed in execution {execution_id}")
    raise NoRerunError(f"items of several loops have failed: begin at one of {', '.join(steps)}")
