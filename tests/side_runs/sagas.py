"""Playbooks that compensate, and what their logs tell of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.engine.commands import CancelExecution
from noetl.events.envelope import Event
from tests.engine_script import Conversation

ORDER = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    compensate:
      spec: {idempotent: true}
      tool: {kind: python, code: x, args: {id: "{{ result.id }}", n: "{{ ctx.n }}"}}
    set_ctx: {n: 1}
    next: {arcs: [{step: charge}]}
  - step: charge
    tool: {kind: python, code: x}
    compensate: {tool: {kind: python, code: x, args: {id: "{{ result.id }}"}}}
    set_ctx: {n: 2}
    next: {arcs: [{step: ship}]}
  - step: ship
    tool: {kind: python, code: x}
    next:
      arcs:
        - {step: sorry, when: "{{ event.name == 'step.failed' }}", spec: {trigger_compensation: true}}
        - {step: end}
  - {step: sorry, tool: {kind: python, code: x}}
  - step: end
"""


def compensation_outcomes(events: Sequence[Event]) -> list[tuple[str, str | None]]:
    """The outcomes of compensations, in the order of the log."""
    return [
        (event.event_type.removeprefix("compensation."), event.step)
        for event in events
        if event.event_type.startswith("compensation.")
    ]


def ended(events: Sequence[Event]) -> list[tuple[str, str | None]]:
    return [one for one in compensation_outcomes(events) if one[0] in ("done", "failed", "unknown")]


def tasks(events: Sequence[Event]) -> list[Any]:
    return [event.payload for event in events if event.event_type == "task.processed"]


def undoing() -> Conversation:
    talk = Conversation(ORDER)
    talk.start()
    talk.done("start", {"id": 1})
    talk.done("charge", {"id": 2})
    talk.tell(CancelExecution(at=talk.clock.now(), compensate=True))
    [talk.names["undo#1"]] = talk.execution.side_work.step_runs
    return talk
