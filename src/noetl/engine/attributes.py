"""Attributes of tracing: what a step's author wants to find on every event of the step, copied as it is written."""

from __future__ import annotations

import msgspec

from noetl.engine.decision import Decision
from noetl.engine.plan import Plan
from noetl.events.envelope import Event


def with_attributes(plan: Plan, decision: Decision) -> Decision:
    """The decision with the attributes of each step on its events (ADV-07)."""
    if not plan.attributes or not decision.events:
        return decision
    return msgspec.structs.replace(decision, events=tuple(_marked(plan, event) for event in decision.events))


def _marked(plan: Plan, event: Event) -> Event:
    found = plan.attributes.get(event.step or "")
    if found is None:
        return event
    return msgspec.structs.replace(event, payload=msgspec.structs.replace(event.payload, attributes=found))
