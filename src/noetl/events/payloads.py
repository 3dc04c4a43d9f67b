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
    WAITING = "waiting"  # it goes on, and its step run waits for somebody outside
    HELD = "held"  # it stands still until it is resumed
    GOOD = "good"  # it went well
    BAD = "bad"  # it went wrong
    TOLD = "told"  # the payload says which of the two


class EventMeaning(msgspec.Struct, frozen=True):
    """What a class of events means: the kind of thing it is about, how that stands afterwards, and the events that
    begin what this one ends. Taxonomy, waits, docs and the constants of the web UI are made from it. `owner`: who
    writes it, where that is not the worker for a reported event and the server for any other."""

    entity: str
    phase: EventPhase
    ends: tuple[str, ...] = ()
    owner: EventSource | None = None


# `gc=False` here and on the other records that come with every step: frozen plain data is never part of a cycle, and
# the collector would look through each of them several times.
class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """`apart` tells the places whose value is in the results store; a reference stands there instead (RES-03).
    `attributes` are those that the author of the step wants on its events (ADV-07)."""

    event_type: ClassVar[str]
    meaning: ClassVar[EventMeaning]

    apart: tuple[Place, ...] = ()
    attributes: dict[str, Any] = {}


class Reported(Payload, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """What a worker reports: several kinds travel in one list, so each says which it is."""
