"""Reruns from a step: the state that the new execution takes over from the old one (CLI-04), the recorded approvals it
relies on, and whether they still hold (HUM-05).
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
    rerun_problem,
    rerun_state,
    reused_approvals,
)
from noetl.events.envelope import Event
from noetl.events.executions import Approval, ExecutionRequested, RerunState
from noetl.events.loops import IterationFailed
from noetl.net.net import Net
from noetl.store.contract import EventFilter, ExecutionRow, History


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
    """The state with which an execution of `net` begins at `step`. `events` is the whole log of the old execution. With
    `failed_items` the results of successful iterations are kept. NoRerunError says why there is no such state,
    RefusedError names the approval that does not hold for `now`."""
    if (why := rerun_problem(net, step)) is not None:
        raise NoRerunError(why)
    # In a thread: replaying a long log takes a while, and a server has other requests to answer.
    state = await asyncio.to_thread(rerun_state, row.execution_id, row.trace_id, events, net, step)
    if state is None:
        raise NoRerunError(f'execution {row.execution_id} never entered step "{step}"')
    if failed_items:
        kept, until = await asyncio.to_thread(kept_iterations, events, net, step, state.at)
        state = msgspec.structs.replace(state, kept=kept)
        return await _with_approvals(history, events, state, now, consent, until=until)
    return await _with_approvals(history, events, state, now, consent)


async def _with_approvals(
    history: History,
    events: list[Event],
    carried: RerunState,
    now: ApprovedInputs,
    consent: Consent,
    *,
    until: int | None = None,
) -> RerunState:
    """The state with the approvals it relies on: those before the step was entered, or before event `until` when later
    results are kept. RefusedError when the inputs differ from those that were approved and `consent` does not cover
    that."""
    request = events[0].payload
    assert isinstance(request, ExecutionRequested), "every stream begins with its request (SRV-01)"
    last = events[(until or carried.at) - 1]
    found = approvals_in(events[: last.seq]) + await _nested_approvals(history, carried.execution_id, last.ts)
    before = ApprovedInputs(net_hash=request.net_hash, payload=request.payload)
    return msgspec.structs.replace(carried, approvals=reused_approvals(found, before, now, consent))


async def _nested_approvals(history: History, execution_id: str, until: float) -> tuple[Approval, ...]:
    """The approvals until that time in all descendants of an execution."""
    found: tuple[Approval, ...] = ()
    for child in await history.children(execution_id):
        events = await history.events(child.execution_id, only=EventFilter(types=APPROVAL_EVENTS))
        found += approvals_in(event for event in events if event.ts <= until)
        found += await _nested_approvals(history, child.execution_id, until)
    return found


async def failed_loops(history: History, execution_id: str) -> list[str]:
    """The steps with failed iterations, in the order of the first failure."""
    events = await history.events(execution_id, only=EventFilter(types=(IterationFailed.event_type,)))
    return list(dict.fromkeys(event.step for event in events if event.step is not None))


def only_failed_loop(steps: list[str], execution_id: str) -> str:
    """The one step with failed iterations. NoRerunError when there is none, or more than one."""
    if len(steps) == 1:
        return steps[0]
    if not steps:
        raise NoRerunError(f"no item of a loop has failed in execution {execution_id}")
    raise NoRerunError(f"items of several loops have failed: begin at one of {', '.join(steps)}")
