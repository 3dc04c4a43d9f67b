"""Type narrowing for tests: a value is present, an event is of a kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from noetl.events.envelope import Event

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """The value; the test fails where it is missing."""
    assert value is not None
    return value


def payload(event: Event, kind: type[Value]) -> Value:
    """The payload of an event of that kind."""
    assert isinstance(event.payload, kind), event
    return event.payload


def payloads(events: Iterable[Event], kind: type[Value]) -> list[Value]:
    """The payloads of all events of that kind, in order."""
    return [event.payload for event in events if isinstance(event.payload, kind)]
