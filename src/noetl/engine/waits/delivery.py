"""Delivering: messages, signals, events and cancellations that come to an execution from outside (MSG, TMR-04).

What cannot be delivered is answered with a verdict and its reason, and leaves no trace.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.ids import derived
from noetl.engine.commands import CancelTimer, DeliverMessage, DeliverSignal, InjectEvent
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution
from noetl.engine.plan import Plan
from noetl.engine.waits.due_timers import end_wait
from noetl.engine.waits.state import Wait, WaitKind
from noetl.events.control import Emitted
from noetl.events.legacy_names import is_system_name
from noetl.events.orders import ReportResult
from noetl.events.waits import MessageReceived, SignalReceived, TimerCancelled, TimerFired, correlated

# Names of the system that may be put in all the same. They are recorded as `Emitted`, so they end no wait.
_INJECTABLE = frozenset({MessageReceived.event_type, SignalReceived.event_type, TimerFired.event_type})


def deliver_message(plan: Plan, execution: Execution, command: DeliverMessage) -> Decision:
    """To the one wait it was sent to, once (MSG-01, MSG-02)."""
    if refused := _refusal_when_over(execution):
        return refused
    # Checked before the wait: the sender of a repeated message receives "delivered", also after the wait has
    # ended.
    if command.message_id in execution.open_waits.known_keys:
        return Decision(verdict=ReportResult.DUPLICATE)
    wait = execution.open_waits.waits.get(command.wait_id)
    if wait is None or wait.kind is not WaitKind.MESSAGE:
        return Decision(verdict=ReportResult.NOT_FOUND, detail="no step waits for this message any more")
    if command.name != wait.name or not _matches(command.correlation, wait.correlation):
        return Decision(
            verdict=ReportResult.INVALID, detail=f'this is not the message "{wait.name}" that is waited for'
        )
    if _is_too_old(plan, command):
        return Decision(verdict=ReportResult.INVALID, detail="the message is older than message_ttl allows")
    if execution.lifecycle.paused:
        return Decision(verdict=ReportResult.PAUSED)  # messages are kept meanwhile (O-16)
    draft = Draft(execution, command.at, derived(wait.wait_id, command.message_id))
    received = MessageReceived(
        wait_id=wait.wait_id,
        message_id=command.message_id,
        name=command.name,
        correlation=command.correlation,
        payload=command.payload,
    )
    end_wait(draft, execution, wait, received)
    return draft.decision()


def _is_too_old(plan: Plan, command: DeliverMessage) -> bool:
    """Whether the playbook takes no message that was sent so long ago (O-33)."""
    most = plan.net.executor.limits.get("message_ttl")
    return most is not None and command.sent_at is not None and command.at - command.sent_at > seconds(most)


def _matches(sent: dict[str, Any], awaited: dict[str, Any]) -> bool:
    """Whether every awaited key is there with an equal value; 1 and true and "1" are three values."""
    return all(key in sent and correlated(sent[key]) == correlated(value) for key, value in awaited.items())


def deliver_signal(execution: Execution, command: DeliverSignal) -> Decision:
    """Deliver it to every wait for this name; without one, to the rules that listen (MSG-05)."""
    if refused := _refusal_when_over(execution):
        return refused
    if command.signal_id in execution.open_waits.known_keys:
        return Decision(verdict=ReportResult.DUPLICATE)
    draft = Draft(execution, command.at, derived("signal", command.signal_id, execution.log.seq))
    received = SignalReceived(signal_id=command.signal_id, name=command.name, data=command.data)
    waiting = [
        wait
        for wait in execution.open_waits.waits.values()
        if wait.kind is WaitKind.SIGNAL and wait.name == command.name
    ]
    for ordinal, wait in enumerate(waiting):
        # One event for each wait, and the signal counts once: `again` marks those after the first for handlers.
        own = msgspec.structs.replace(received, wait_id=wait.wait_id, again=ordinal > 0)
        end_wait(draft, execution, wait, own)
    if not waiting:
        draft.add(received, parent_id=execution.log.last_event_id)
    return draft.decision()


def inject_event(execution: Execution, command: InjectEvent) -> Decision:
    """Under a name that is not the system's own (MSG-06)."""
    if refused := _refusal_when_over(execution):
        return refused
    # A client that could inject `step.done` could forge the course of an execution.
    if not command.name or (is_system_name(command.name) and command.name not in _INJECTABLE):
        allowed = ", ".join(sorted(_INJECTABLE))
        detail = f'"{command.name}" is a name of the system itself; use a name of your own, or one of {allowed}'
        return Decision(verdict=ReportResult.INVALID, detail=detail)
    if command.event_key is not None and command.event_key in execution.open_waits.known_keys:
        return Decision(verdict=ReportResult.DUPLICATE)
    draft = Draft(execution, command.at, derived("injected", command.event_key or "", execution.log.seq))
    emitted = Emitted(emitted=command.name, data=command.data, key=command.event_key)
    draft.add(emitted, parent_id=execution.log.last_event_id)
    return draft.decision()


def cancel_timer(execution: Execution, command: CancelTimer) -> Decision:
    """Only a timer that its author made cancellable (TMR-04)."""
    if refused := _refusal_when_over(execution):
        return refused
    timers = _timers(execution, command.timer_id)
    if not timers:
        detail = f'no timer "{command.timer_id}" is running in this execution'
        return Decision(verdict=ReportResult.NOT_FOUND, detail=detail)
    # Loops and parallel arcs may run a step several times. Cancelling all of them, or any one, would be a guess.
    if len(timers) > 1:
        ids = ", ".join(wait.wait_id for wait in timers)
        detail = f'{len(timers)} timers are called "{command.timer_id}": name one of {ids}'
        return Decision(verdict=ReportResult.CONFLICT, detail=detail)
    [wait] = timers
    if not wait.cancellable:
        detail = f'timer "{wait.name}" cannot be cancelled: its step does not say spec.cancellable: true'
        return Decision(verdict=ReportResult.REFUSED, detail=detail)
    draft = Draft(execution, command.at, derived(wait.wait_id, "cancelled"))
    end_wait(draft, execution, wait, TimerCancelled(wait_id=wait.wait_id, timer_id=wait.name, actor=command.actor))
    return draft.decision()


def _timers(execution: Execution, timer_id: str) -> list[Wait]:
    # People have the name from the playbook; screens and the API have the id of the wait.
    wait = execution.open_waits.waits.get(timer_id)
    if wait is not None and wait.kind is WaitKind.TIMER:
        return [wait]
    return [one for one in execution.open_waits.waits.values() if one.kind is WaitKind.TIMER and one.name == timer_id]


def _refusal_when_over(execution: Execution) -> Decision | None:
    return None if execution.is_open else Decision(verdict=ReportResult.TERMINAL, detail="this execution has ended")
