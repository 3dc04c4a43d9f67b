"""Wait blocks and their kin in the schema: timers, messages, signals, human tasks, timeouts, compensation, handlers."""

from __future__ import annotations

from noetl.language.json_schema.fragments import (
    ANYTHING,
    DATA,
    DURATION,
    FLAG,
    STATIC,
    TEXT,
    Schema,
    array,
    described_schema,
    mapping,
    ref,
    words,
)
from noetl.language.json_schema.tasks import tool

FIELD_TYPES = ("enum", "string", "text", "number", "integer", "boolean", "date")


def blocks() -> dict[str, Schema]:
    """The step keys of these blocks."""
    return {
        "timer": _timer(),
        "message": _message(),
        "signal": mapping({"name": TEXT}, "name", doc="Waits for a signal of this name."),
        "human_task": _human_task(),
        "timeout": _timeout(),
        "compensate": _compensate(),
        "on_event": _on_event(),
    }


def _timer() -> Schema:
    timer = mapping(
        {
            "id": described_schema(TEXT, "Readable as event.data.timer_id; the step's name when left out."),
            "duration": described_schema(DURATION, "How long to wait: 90, 48h, 1h30m, PT2H30M."),
            "until": described_schema(TEXT, "The moment to wait for: 2025-01-31T06:00:00Z."),
            "spec": mapping({"cancellable": FLAG}),
        },
        doc="Waits for a time.",
    )
    return timer | {"oneOf": [{"required": ["duration"]}, {"required": ["until"]}]}


def _message() -> Schema:
    return mapping(
        {
            "name": described_schema(TEXT, "Name of the message."),
            "correlation": described_schema(DATA, "What the message's correlation must hold."),
            "timeout": described_schema(DURATION, "After this long message.timeout is raised."),
            "spec": mapping({"timeout_action": words("escalate", "fail", "ignore")}),
        },
        "name",
        doc="Waits for a message.",
    )


def _human_task() -> Schema:
    field = mapping(
        {
            "field": described_schema(TEXT, "Name of the value."),
            "type": words(*FIELD_TYPES),
            "options": described_schema({"type": "array"}, "Of an enum: the values to choose from."),
            "required": FLAG,
            "default": ANYTHING,
        },
        "field",
    )
    return mapping(
        {
            "title": described_schema(TEXT, "What is asked."),
            "assignee": mapping({"role": TEXT, "user": TEXT}, doc="Who is asked: a role or a user.")
            | {"minProperties": 1, "maxProperties": 1},
            "form": described_schema(array(field), "The answer's fields."),
            "due_date": described_schema(
                {"type": ["number", "string"]}, "When it is due: a time, or a length of time from now."
            ),
            "escalation": mapping({"after": DURATION, "to_role": TEXT, "to_user": TEXT}, "after"),
            "spec": mapping({"escalation_mode": words("reassign", "notify")}),
        },
        doc="Asks a person, and waits for the answer.",
    )


def _timeout() -> Schema:
    timeout = mapping(
        {
            "duration": DURATION,
            "alternative_step": described_schema(STATIC, "Where the token goes with on_timeout: alternative."),
            "spec": mapping({"on_timeout": words("alternative", "fail", "ignore")}),
        },
        "duration",
        doc="Bounds the whole step run; fails it when left at that.",
    )
    chosen = {"properties": {"spec": {"required": ["on_timeout"]}}, "required": ["spec"]}
    alternative = {
        "properties": {"spec": {"properties": {"on_timeout": {"const": "alternative"}}, "required": ["on_timeout"]}},
        "required": ["spec"],
    }
    return timeout | {
        "if": alternative,
        "then": {"required": ["alternative_step"]},
        "else": {"if": {"required": ["alternative_step"]}, "then": chosen},
    }


def _compensate() -> Schema:
    return mapping(
        {"tool": tool(), "spec": mapping({"idempotent": FLAG})},
        "tool",
        doc="What undoes this step, once it has succeeded.",
    )


def _on_event() -> Schema:
    handler = mapping(
        {"event": described_schema(TEXT, "Name of the event."), "when": ref("guard"), "then": ref("tasks")},
        "event",
        "then",
    )
    handlers = array(handler, minItems=1)
    block = mapping({"spec": mapping({"interrupting": FLAG}), "handlers": handlers}, "handlers")
    return {"description": "Tasks that run when an event comes while the step is active.", "anyOf": [block, handlers]}
