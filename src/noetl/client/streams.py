"""Event streams as they come over the wire: lines to messages, messages to events (server-sent events)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from noetl.events.encoding import decode_payload
from noetl.events.envelope import Event
from noetl.events.payloads import EventSource


class StreamMessage(msgspec.Struct, frozen=True):
    """`name` is "message" unless the server says otherwise; `at` is what to say when coming back."""

    name: str
    data: str
    at: str | None


class Reader:
    """Takes one line after the other, and gives a message when one is complete."""

    def __init__(self) -> None:
        self._name, self._data = "", list[str]()
        self._at: str | None = None

    def take(self, line: str) -> Iterator[StreamMessage]:
        if not line:
            if self._data:
                yield StreamMessage(self._name or "message", "\n".join(self._data), self._at)
            self._name, self._data = "", []
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id":
                self._at = value


def event_of(told: dict[str, Any]) -> Event:
    """The event that a server tells in its readable form."""
    return Event(
        execution_id=told["execution_id"],
        seq=told["seq"],
        event_id=told["event_id"],
        ts=seconds_of(told["ts"]),
        source=EventSource(told["source"]),
        payload=decode_payload(told["event_type"], msgspec.json.encode(told["payload"]), told["schema"]),
        trace_id=told["trace_id"],
        parent_id=told["parent_id"],
        step=told["step"],
        step_run_id=told["step_run_id"],
        task_run_id=told["task_run_id"],
        on_behalf=told["on_behalf"],
        schema=told["schema"],
    )


def seconds_of(moment: str) -> float:
    """Seconds since the epoch of an RFC 3339 time."""
    return datetime.fromisoformat(moment).timestamp()
