"""Listening: step runs in `on_event` mode that wait for events, as state of the server, with no worker held (V2C-13).
Also what a worker tells of case runs, as events.

Their rules are evaluated here. Their tasks go to a worker under a new order; a transition is taken at once. If nothing
else in an execution is live, only events from outside can come; then a step run that listens to events of the execution
itself goes on to its exit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from noetl.base.ids import derived
from noetl.engine.decision import Decision, DispatchStep, Draft, patch_ctx
from noetl.engine.execution import Execution, StepRun
from noetl.engine.pipeline.payloads import stored_apart
from noetl.engine.plan import Plan
from noetl.engine.scopes import surroundings_of
from noetl.engine.v2_case.names import step_result
from noetl.engine.v2_case.position import CaseSite
from noetl.engine.v2_case.walk import CaseWalk, decided
from noetl.engine.withdrawal import close_waits
from noetl.events.outcomes import TaskResult
from noetl.events.steps import CaseHeard, CaseStarted, StepDone, StepFailed
from noetl.events.tasks import TaskProcessed
from noetl.events.v2_case_positions import OwnEvent

# Recording case runs: reports on rules, retries and sinks become separate events (C-13, V2C-24).
#
# The notes travel with the task they follow from, so a repeated report adds them no second time (EVT-06).

Entry = TypeVar("Entry", TaskProcessed, CaseStarted)  # entries that a worker reports
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
        placed = msgspec.structs.replace(note, path=path) if path else note
        draft.add(placed, run=run, **{**about, "parent_id": event_id})


def deliver_events(
    plan: Plan, execution: Execution, run: StepRun, events: Sequence[OwnEvent], at: float, *, kept: bool = False
) -> Decision:
    """How a waiting step run handles events. Events without effect leave no trace, unless they were `kept`."""
    walk = _walk(plan, execution, run, at)
    taken = walk.deliver_events(events)
    if walk.case == run.progress.position.case and not kept:
        return Decision()
    return _record_walk(plan, execution, run, walk, tuple(events[taken:]), at)


def stop_listening(plan: Plan, execution: Execution, at: float) -> Decision:
    """Every step run listens and none can send an event: the first listener goes on to its exit. Listeners that wait
    for time, messages, signals or injected events stay, because these can come at any time (MSG-06)."""
    listening = (execution.runs[run_id] for run_id in execution.open_waits.listeners)
    run = next((one for one in listening if not _waits_for_outside(plan, one)), None)
    if run is None:
        return Decision()
    walk = _walk(plan, execution, run, at)
    walk.give_up()
    return _record_walk(plan, execution, run, walk, (), at)


def only_listeners(execution: Execution) -> bool:
    """Whether all that is left are step runs that wait for events of others."""
    return bool(execution.open_waits.listeners) and all(
        run_id in execution.open_waits.listeners and run.lease.order_id is None and run.ended is None
        for run_id, run in execution.runs.items()
    )


def _waits_for_outside(plan: Plan, run: StepRun) -> bool:
    """Whether a rule that has not run yet asks for an event from outside."""
    case = run.progress.position.case
    fired = case.fired if case is not None else ()
    return not plan.outside_rules(run.step).issubset(fired)


def _walk(plan: Plan, execution: Execution, run: StepRun, at: float) -> CaseWalk:
    site = CaseSite(
        step=plan.step(run.step),
        steps=frozenset(step.name for step in plan.net.transitions),
        around=surroundings_of(plan, execution, run),
        now=at,
    )
    return CaseWalk(site, run.progress.position)


def _record_walk(
    plan: Plan, execution: Execution, run: StepRun, walk: CaseWalk, later: tuple[OwnEvent, ...], at: float
) -> Decision:
    cause = derived(run.step_run_id, "heard", execution.log.seq)
    draft = Draft(execution, at, cause)
    decision = decided(walk)
    order_id = derived("order", cause) if decision.next is not None else None
    heard = CaseHeard(decision=decision, order_id=order_id, later=() if walk.is_over else later)
    add_case(draft, execution, run, heard, parent_id=execution.log.last_event_id)
    if order_id is not None:
        draft.add_effect(DispatchStep(order_id, run.step_run_id))
    elif walk.is_over:
        close_waits(draft, execution, run)
        draft.add(_end(plan, walk), run=run, on_behalf=True, parent_id=execution.log.last_event_id)
    return draft.decision()


def _end(plan: Plan, walk: CaseWalk) -> StepDone | StepFailed:
    if walk.case.error is not None:
        return StepFailed(error=walk.case.error)
    result: TaskResult = step_result(walk.step, walk.position, plan.load)
    if not plan.fits(result.result):
        result = stored_apart(result, plan.keep)
    return StepDone(result=result)
