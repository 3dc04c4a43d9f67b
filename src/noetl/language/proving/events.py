"""Boundary events: how a step's run can end, as far as its compiled form tells (ROUTE-09, LOOP-09, TMR-02).

Names are those an arc's `event.name` can have. Aliases of other generations compare equal to several of them
(design.md §5); a name outside both tables is nobody's boundary event.
"""

from __future__ import annotations

from noetl.net.net import Transition

FAILED = "step.failed"
TIMED_OUT = "step.timeout"  # not a boundary event: the alternative of a timeout block is taken without arcs (TMR-05)

_ALIASES: dict[str, frozenset[str] | None] = {
    "call.done": frozenset({"step.done", "loop.done"}),
    "ToolCompleted": frozenset({"step.done", "loop.done"}),
    "call.error": frozenset({FAILED}),
    "ToolErrored": frozenset({FAILED}),
    "task.processed": None,  # any of them
    "step.exit": None,
}


def boundary_events(step: Transition) -> tuple[str, ...]:
    """The events that can end a run of `step`, failures last."""
    events: list[str] = []
    if step.loop is not None:
        events.append("loop.done")
    elif step.waits:
        events += _wait_events(step)
    else:
        events.append("step.done")
    if step.handlers is not None and step.handlers.interrupting:
        events.append("step.interrupted")
    return (*events, FAILED)


def _wait_events(step: Transition) -> list[str]:
    events = []
    if step.timer is not None:
        events.append("timer.fired")
        if step.timer.cancellable:
            events.append("timer.cancelled")
    if step.message is not None:
        events.append("message.received")
        if step.message.timeout is not None and step.message.timeout_action == "escalate":
            events.append("message.timeout")
    if step.signal is not None:
        events.append("signal.received")
    if step.human_task is not None:
        events.append("task.completed")
    return events


def same_event(written: object, event: str) -> bool:
    """Whether `event.name == written` holds when the boundary event is `event`."""
    if not isinstance(written, str):
        return False
    if written in _ALIASES:
        meant = _ALIASES[written]
        return meant is None or event in meant
    return written == event
