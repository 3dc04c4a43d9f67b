"""Legacy names: the CamelCase names of older playbooks for the events of the log (C-13, EVT-05, EVT-10).

Stored names are dotted. One table serves both readers of the old ones: listings with `names=legacy`, and conditions of
v2-case that compare `event.name`. An event without an older name keeps its dotted name.
"""

from __future__ import annotations

from typing import Any, Literal

from noetl.events.envelope import Event, readable, status_of
from noetl.events.events import TAXONOMY

_COMPLETED, _ERRORED = "ToolCompleted", "ToolErrored"

LEGACY = {
    "playbook.execution_requested": "PlaybookExecutionRequested",
    "playbook.request_evaluated": "PlaybookRequestEvaluated",
    "playbook.paused": "PlaybookPaused",
    "playbook.processed": "PlaybookProcessed",
    "workflow.started": "WorkflowStarted",
    "workflow.finished": "WorkflowFinished",
    "step.started": "StepStarted",
    "task.started": "ToolStarted",
    "loop.started": "LoopStarted",
    "loop.iteration.started": "LoopIterationStarted",
    "loop.iteration.done": "LoopIterationCompleted",
    "loop.iteration.failed": "LoopIterationCompleted",
    "retry.started": "RetryStarted",
    "retry.processed": "RetryProcessed",
    "sink.started": "SinkStarted",
    "sink.processed": "SinkProcessed",
    "case.started": "CaseStarted",
    "case.evaluated": "CaseEvaluated",
    "next.selected": "NextEvaluated",
}

# The short names that conditions use for events of their own step, and the other names of these events.
_OWN = {
    "step.enter": frozenset({"start", "step.started", "StepStarted"}),
    "call.done": frozenset({"task.processed", _COMPLETED}),
    "call.error": frozenset({"task.processed", _ERRORED}),
}
_ITERATION_STARTED = frozenset({"loop.iteration.started", "LoopIterationStarted"})
ENTERING = frozenset({"step.enter", *_OWN["step.enter"], *_ITERATION_STARTED})


_SYSTEM_NAMES = frozenset({*TAXONOMY, *LEGACY.values(), _COMPLETED, _ERRORED, *_OWN, *ENTERING, "step.exit"})


def is_system_name(name: str) -> bool:
    """Whether this is a name of a system event, current or legacy. Playbooks and clients cannot use it (MSG-06)."""
    return name in _SYSTEM_NAMES


def legacy_name(event_type: str, status: str = "success") -> str:
    """The CamelCase name of a stored event. The older names say how a task ended."""
    if event_type == "task.processed":
        return _ERRORED if status == "error" else _COMPLETED
    return LEGACY.get(event_type, event_type)


def foreign_aliases(event_type: str, *, failed: bool = False) -> frozenset[str]:
    """Further names of an event of another step: never the short names (O-27)."""
    return frozenset({legacy_name(event_type, "error" if failed else "success")})


def own_aliases(name: str, *, failed: bool = False, looped: bool = False) -> frozenset[str]:
    """Further names of a step's own event, known by its short name (O-27); in an iteration also by its names."""
    if name == "step.exit":
        end = "failed" if failed else "done"
        own = frozenset({f"step.{end}"})
        return own | {f"loop.iteration.{end}", "LoopIterationCompleted"} if looped else own
    own = _OWN.get(name, frozenset())
    return own | _ITERATION_STARTED if looped and name == "step.enter" else own


Names = Literal["dotted", "legacy"]


def shown_event(event: Event, names: Names = "dotted") -> dict[str, Any]:
    """An event as clients read it, under its name of today or the older one (EVT-02, EVT-05)."""
    fields = readable(event)
    if names == "legacy":
        fields["event_type"] = fields["name"] = legacy_name(event.event_type, status_of(event.payload))
    return fields
