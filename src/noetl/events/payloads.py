"""What every event's payload has, what its class says about its meaning, and what sets apart those a worker reports."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

import msgspec

Place = tuple[str | int, ...]


class EventSource(StrEnum):
    SERVER = "server"
    WORKER = "worker"


class EventPhase(StrEnum):
    """What an event says about the thing it is about."""

    OPEN = "open"  # it goes on from here
    WAITING = "waiting"  # it goes on, and its step run waits for something outside
    HELD = "held"  # it stands still until it is resumed
    GOOD = "good"  # it went well
    BAD = "bad"  # it went wrong
    IN_PAYLOAD = "in payload"  # the payload says which of the two


class EventMeaning(msgspec.Struct, frozen=True):
    """What a class of events means. Taxonomy, waits and docs are made from it."""

    entity: str  # the kind of thing it is about
    phase: EventPhase  # how that stands afterwards
    ends: tuple[str, ...] = ()  # the events that begin what this one ends
    owner: EventSource | None = None  # None: the worker writes it if it is `Reported`, else the server


# `gc=False` here and on the other records that come with every step: frozen plain data is never part of a cycle, and
# the collector would look through each of them several times.
class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What all payloads have. Stored as JSON without defaults, so a field that is added costs old events nothing."""

    event_type: ClassVar[str]
    meaning: ClassVar[EventMeaning]

    # The places whose value is in the results store; a reference stands there instead (RES-03).
    apart: tuple[Place, ...] = ()
    # Those that the author of the step wants on its events (ADV-07).
    attributes: dict[str, Any] = {}


class Reported(Payload, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """What a worker reports: several kinds travel in one list, so each says which it is."""
