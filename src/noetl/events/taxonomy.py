"""The taxonomy: every canonical event name with its owner and the kind of thing it is about (EVT-03, EVT-04).

Made from the classes of events; what an event means is said there.
"""

from __future__ import annotations

from typing import get_args

import msgspec

from noetl.events.events import Payload
from noetl.events.payloads import EventPhase, EventSource, Reported

_STATUS = {
    EventPhase.OPEN: "in_progress",
    EventPhase.WAITING: "in_progress",
    EventPhase.HELD: "paused",
    EventPhase.GOOD: "success",
    EventPhase.BAD: "error",
    EventPhase.TOLD: None,
}


class EventType(msgspec.Struct, frozen=True):
    """`status` is the envelope's for every event of this type, None where the payload decides."""

    name: str
    owner: EventSource
    entity: str
    phase: EventPhase
    ends: tuple[str, ...] = ()

    @property
    def status(self) -> str | None:
        return _STATUS[self.phase]


def _type(event: type[Payload]) -> EventType:
    meaning = event.meaning
    owner = meaning.owner or (EventSource.WORKER if issubclass(event, Reported) else EventSource.SERVER)
    return EventType(event.event_type, owner, meaning.entity, meaning.phase, meaning.ends)


# What authors name themselves (EVT-09); every other name is the system's own and stands in the table.
AUTHORED = EventType("", EventSource.SERVER, "event", EventPhase.GOOD)
TAXONOMY: dict[str, EventType] = {event.event_type: _type(event) for event in get_args(Payload)}
# Events after which a step run waits for time, a message, a signal, a person or an event of another step.
WAITS = tuple(name for name, kind in TAXONOMY.items() if kind.phase is EventPhase.WAITING)


def type_of(name: str) -> EventType:
    """What is known of an event by its name."""
    return TAXONOMY.get(name, AUTHORED)
