"""The taxonomy: every canonical event name with its owner and the kind of thing it is about (EVT-03, EVT-04)."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class EventSource(StrEnum):
    SERVER = "server"
    WORKER = "worker"


class EventType(msgspec.Struct, frozen=True):
    """`status` is the envelope's for every event of this type, None where the payload decides."""

    name: str
    owner: EventSource
    entity: str
    status: str | None


def _types(owner: EventSource, entity: str, prefix: str, statuses: dict[str, str | None]) -> dict[str, EventType]:
    return {
        f"{prefix}.{verb}": EventType(f"{prefix}.{verb}", owner, entity, status) for verb, status in statuses.items()
    }


_OPEN, _GOOD, _BAD, _HELD = "in_progress", "success", "error", "paused"
# What authors name themselves (EVT-09); every other name is the system's own and stands in the table.
AUTHORED = EventType("", EventSource.SERVER, "event", _GOOD)

TAXONOMY: dict[str, EventType] = {
    **_types(
        EventSource.SERVER,
        "playbook",
        "playbook",
        {
            "execution_requested": _OPEN,
            "request_evaluated": _OPEN,
            "paused": _HELD,
            "resumed": _OPEN,
            "cancelled": _BAD,
            "processed": None,
        },
    ),
    **_types(EventSource.SERVER, "workflow", "workflow", {"started": _OPEN, "finished": None}),
    **_types(
        EventSource.SERVER,
        "token",
        "token",
        {
            "created": _OPEN,
            "enqueued": _OPEN,
            "held": _OPEN,
            "released": _OPEN,
            "claimed": _OPEN,
            "consumed": _GOOD,
            "dropped": None,
        },
    ),
    **_types(EventSource.SERVER, "token", "join", {"filled": _GOOD, "unfilled": _BAD}),
    **_types(
        EventSource.SERVER, "step", "step", {"denied": _GOOD, "scheduled": _OPEN, "started": _OPEN, "timeout": _BAD}
    ),
    **_types(EventSource.WORKER, "step", "step", {"done": _GOOD, "failed": _BAD}),
    **_types(EventSource.SERVER, "step", "step", {"interrupted": _GOOD}),
    **_types(EventSource.SERVER, "step", "limit", {"changed": _GOOD}),
    **_types(EventSource.WORKER, "tool", "task", {"started": _OPEN, "processed": None}),
    **_types(EventSource.WORKER, "tool", "task", {"async_started": _OPEN, "async_done": None}),
    **_types(EventSource.WORKER, "tool", "hook", {"failed": _BAD}),
    **_types(EventSource.WORKER, "tool", "quantum", {"placed": _GOOD}),
    **_types(EventSource.SERVER, "order", "order", {"claimed": _OPEN}),
    **_types(
        EventSource.SERVER,
        "compensation",
        "compensation",
        {"registered": _OPEN, "requested": _OPEN, "started": _OPEN, "done": _GOOD, "failed": _BAD, "unknown": _BAD},
    ),
    **_types(
        EventSource.SERVER,
        "handler",
        "handler",
        {"started": _OPEN, "skipped": _GOOD, "done": _GOOD, "failed": _BAD},
    ),
    **_types(EventSource.WORKER, "keychain", "keychain", {"refreshed": _GOOD}),
    **_types(EventSource.SERVER, "loop", "loop", {"started": _OPEN, "scheduled": _OPEN, "cut": None, "done": None}),
    **_types(EventSource.WORKER, "loop", "loop.iteration", {"started": _OPEN, "done": _GOOD, "failed": _BAD}),
    **_types(EventSource.SERVER, "timer", "timer", {"scheduled": _OPEN, "fired": _GOOD, "cancelled": _GOOD}),
    **_types(EventSource.SERVER, "message", "message", {"awaited": _OPEN, "received": _GOOD, "timeout": _BAD}),
    **_types(EventSource.SERVER, "signal", "signal", {"awaited": _OPEN, "received": _GOOD}),
    **_types(
        EventSource.SERVER,
        "human_task",
        "human",
        {"created": _OPEN, "claimed": _OPEN, "released": _OPEN, "overdue": _BAD, "escalated": _OPEN},
    ),
    **_types(EventSource.SERVER, "human_task", "task", {"completed": _GOOD}),
    **_types(EventSource.SERVER, "ctx", "ctx", {"patched": _GOOD}),
    **_types(EventSource.SERVER, "next", "next", {"selected": None, "enqueued": _GOOD}),
    **_types(EventSource.WORKER, "case", "case", {"started": _OPEN, "evaluated": _GOOD, "waiting": _OPEN}),
    **_types(EventSource.SERVER, "case", "case", {"heard": _OPEN}),
    **_types(EventSource.WORKER, "retry", "retry", {"started": _OPEN, "processed": None}),
    **_types(EventSource.WORKER, "sink", "sink", {"started": _OPEN, "processed": None}),
    **_types(EventSource.SERVER, "report", "report", {"refused": _BAD}),
    **_types(EventSource.SERVER, "event", "event", {"emitted": _GOOD}),
}


def type_of(name: str) -> EventType:
    """What is known of an event by its name."""
    return TAXONOMY.get(name, AUTHORED)
