"""The common parts of event payloads: the base class, the meaning of a class, and the base class of reported
payloads."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

import msgspec

Place = tuple[str | int, ...]


class EventSource(StrEnum):
    SERVER = "server"
    WORKER = "worker"


class EventPhase(StrEnum):
    """The phase of its subject after an event."""

    OPEN = "open"  # it continues
    WAITING = "waiting"  # it continues, and its step run waits for an external event
    HELD = "held"  # it is held until the execution is resumed
    GOOD = "good"  # it succeeded
    BAD = "bad"  # it failed
    IN_PAYLOAD = "in payload"  # the payload says which of the two


class EventMeaning(msgspec.Struct, frozen=True):
    """The meaning of a class of events. Taxonomy, waits and docs are made from it."""

    entity: str  # the kind of thing it is about
    phase: EventPhase  # its state afterwards
    ends: tuple[str, ...] = ()  # the events that begin what this one ends
    owner: EventSource | None = None  # None: the worker writes it if it is `Reported`, else the server


# `gc=False` here and on the other records that come with every step: frozen plain data is never part of a cycle, and
# the collector would look through each of them several times.
class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The base of all payloads. Stored as JSON without defaults, so a field that is added costs old events nothing."""

    event_type: ClassVar[str]
    meaning: ClassVar[EventMeaning]

    # The places whose value is in the results store; a reference takes the place (RES-03).
    apart: tuple[Place, ...] = ()
    # Labels that the author of the step puts on its events (ADV-07).
    attributes: dict[str, Any] = {}


class Reported(Payload, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """An entry that a worker reports: several kinds travel in one list, so each says which it is."""
