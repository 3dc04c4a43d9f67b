"""Boundary events: which ones a step can end with, and the other names they answer to (LOOP-09, TMR-02, design.md
§5)."""

from __future__ import annotations

from noetl.language.reading.playbook import StepSyntax

FAILED = "step.failed"
# Names of older playbooks for the boundary event, in every dialect's arcs.
ALIASES = ("call.done", "call.error", "step.exit", "step.enter", "start")


def boundary_events(step: StepSyntax) -> tuple[str, ...]:
    """Every event on which the server evaluates this step's arcs, the usual one first."""
    return (*_endings(step), FAILED, *(("step.interrupted",) if step.on_event and step.on_event.interrupting else ()))


def _endings(step: StepSyntax) -> list[str]:
    if step.loop is not None:
        return ["loop.done"]
    waits = []
    if step.timer is not None:
        waits += ["timer.fired", *(["timer.cancelled"] if step.timer.cancellable else [])]
    if step.message is not None:
        waits += ["message.received"]
        if step.message.timeout is not None and step.message.timeout_action == "escalate":
            waits += ["message.timeout"]
    if step.signal is not None:
        waits += ["signal.received"]
    if step.human_task is not None:
        waits += ["task.completed"]
    return waits or ["step.done"]


def meant_by(alias: str, step: StepSyntax) -> tuple[str, ...]:
    """The boundary events of this step that an alias stands for."""
    events = boundary_events(step)
    match alias:
        case "call.done":
            return tuple(event for event in events if event in ("step.done", "loop.done"))
        case "call.error":
            return (FAILED,)
        case "step.exit":
            return events
    return ()


def names_of(event: str, step: StepSyntax) -> frozenset[object]:
    """Every name that compares equal to this event."""
    return frozenset({event, *(alias for alias in ALIASES if event in meant_by(alias, step))})
