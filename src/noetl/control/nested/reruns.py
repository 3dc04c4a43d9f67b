"""Reruns from a step: the state that the new execution takes over from the old one (CLI-04), the recorded approvals it
relies on, and whether they still hold (HUM-05).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterator

import msgspec

from noetl.base.errors import NoRerunError
from noetl.control.nested.calls import child_id_of
from noetl.engine.rerun_state import (
    APPROVAL_EVENTS,
    ApprovedInputs,
    Consent,
    approvals_in,
    kept_iterations,
    lost_approval,
    rerun_problem,
    rerun_state,
    reused_approvals,
)
from noetl.events.envelope import Event
from noetl.events.executions import Approval, ExecutionRequested, RerunState
from noetl.events.loops import IterationFailed
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.net.net import Net
from noetl.store.contract import EventFilter, ExecutionRow, History

_CALL_EVENTS = (TaskStarted.event_type, TaskProcessed.event_type)


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
    relied_on = events[: last.seq]
    found = approvals_in(relied_on)
    found += await _nested_approvals(history, carried.execution_id, last.ts, _ended_children(relied_on))
    before = ApprovedInputs(net_hash=request.net_hash, payload=request.payload)
    found += await _lost_approvals(history, carried.execution_id, relied_on)
    return msgspec.structs.replace(carried, approvals=reused_approvals(found, before, now, consent))


async def _nested_approvals(
    history: History, execution_id: str, until: float, ended: Collection[str] = ()
) -> tuple[Approval, ...]:
    """The approvals in all descendants of an execution: all of those children that had `ended`, and what others had
    until that time."""
    found: tuple[Approval, ...] = ()
    for child in await history.children(execution_id):
        # By the order in the log of the caller where it tells: the clocks of two servers are never quite the same, and
        # an approval that seems to be later than the step would be forgotten.
        own_until = math.inf if child.execution_id in ended else until
        events = await history.events(child.execution_id, only=EventFilter(types=APPROVAL_EVENTS))
        found += approvals_in(event for event in events if event.ts <= own_until)
        found += await _nested_approvals(history, child.execution_id, own_until)
    return found


def _ended_children(events: list[Event]) -> frozenset[str]:
    """The nested executions whose calls had ended by the last of these events."""
    return frozenset(child_id_of(task_run_id) for _, task_run_id in _ended_calls(events))


async def _lost_approvals(history: History, execution_id: str, events: list[Event]) -> tuple[Approval, ...]:
    """Approvals that may have been given in nested executions that are deleted: a playbook may be kept for a shorter
    time than the one that calls it. The new run carries them along; otherwise a second rerun would not find them."""
    children = {child.execution_id for child in await history.children(execution_id)}
    called = {child_id_of(task_run_id): step for step, task_run_id in _ended_calls(events)}
    lost = tuple(lost_approval(step, child_id) for child_id, step in called.items() if child_id not in children)
    for child_id in sorted(children):
        nested = await history.events(child_id, only=EventFilter(types=_CALL_EVENTS))
        lost += await _lost_approvals(history, child_id, nested)
    return lost


def _ended_calls(events: list[Event]) -> Iterator[tuple[str, str]]:
    """Step and task run of each call of a playbook that had a child."""
    calls: set[str] = set()
    for event in events:
        match event.payload:
            case TaskStarted(kind="playbook", task_run_id=task_run_id):
                calls.add(task_run_id)
            case TaskProcessed(task_run_id=task_run_id, outcome=outcome) if task_run_id in calls:
                # A call that failed before it had a child has no id in its error.
                details = outcome.error.details if outcome.error is not None else None
                if outcome.ok or "execution_id" in (details or {}):
                    yield event.step or "", task_run_id


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
