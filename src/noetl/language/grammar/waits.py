"""Wait blocks and their kin: timers, messages, signals, human tasks, timeouts, compensation, handlers."""

from __future__ import annotations

from noetl.language.grammar import model
from noetl.language.grammar.model import NOT_V2_EVAL, Construct, Key, RenderedAt
from noetl.templates.scope import TemplateSite

_OF_A_TIMER = RenderedAt(TemplateSite.WAIT, "a timer")
_OF_A_MESSAGE = RenderedAt(TemplateSite.WAIT, "a message")
_OF_A_PERSON = RenderedAt(TemplateSite.WAIT, "a human task")

TIMER_SPEC = Construct("the spec of a timer", (Key("cancellable", model.FLAG),))
TIMER = Construct(
    "a timer",
    (
        Key("id", model.TEXT, "Readable as event.data.timer_id; the step's name when left out.", rendered=_OF_A_TIMER),
        Key("duration", model.DURATION, "How long to wait: 90, 48h, 1h30m, PT2H30M.", rendered=_OF_A_TIMER),
        Key("until", model.TEXT, "The moment to wait for: 2025-01-31T06:00:00Z.", rendered=_OF_A_TIMER),
        Key("spec", TIMER_SPEC),
    ),
    doc="Waits for a time.",
    rules={"oneOf": [{"required": ["duration"]}, {"required": ["until"]}]},
)
MESSAGE_SPEC = Construct("the spec of a message", (Key("timeout_action", model.words("escalate", "fail", "ignore")),))
MESSAGE = Construct(
    "a message",
    (
        Key("name", model.TEXT, "Name of the message.", required=True, rendered=_OF_A_MESSAGE),
        Key("correlation", model.DATA, "What the message's correlation must hold.", rendered=_OF_A_MESSAGE),
        Key("timeout", model.DURATION, "After this long message.timeout is raised.", rendered=_OF_A_MESSAGE),
        Key("spec", MESSAGE_SPEC),
    ),
    doc="Waits for a message.",
)
SIGNAL = Construct(
    "a signal",
    (Key("name", model.TEXT, required=True, rendered=RenderedAt(TemplateSite.WAIT, "a signal")),),
    doc="Waits for a signal of this name.",
)
FORM_FIELD = Construct(
    "a form field",
    (
        Key("field", model.TEXT, "Name of the value.", required=True),
        Key("type", model.words("enum", "string", "text", "number", "integer", "boolean", "date")),
        Key("options", {"type": "array"}, "Of an enum: the values to choose from."),
        Key("required", model.FLAG),
        Key("default", model.ANYTHING, rendered=_OF_A_PERSON),
    ),
)
ASSIGNEE = Construct(
    "a human task's assignee",
    (Key("role", model.TEXT, rendered=_OF_A_PERSON), Key("user", model.TEXT, rendered=_OF_A_PERSON)),
    doc="Who is asked: a role or a user.",
    rules={"minProperties": 1, "maxProperties": 1},
)
ESCALATION = Construct(
    "a human task's escalation",
    (
        Key("after", model.DURATION, required=True, rendered=_OF_A_PERSON),
        Key("to_role", model.TEXT, rendered=_OF_A_PERSON),
        Key("to_user", model.TEXT, rendered=_OF_A_PERSON),
    ),
)
HUMAN_TASK_SPEC = Construct("the spec of a human task", (Key("escalation_mode", model.words("reassign", "notify")),))
HUMAN_TASK = Construct(
    "a human task",
    (
        Key("title", model.TEXT, "What is asked.", rendered=_OF_A_PERSON),
        Key("description", model.TEXT, "What the person should know before they answer.", rendered=_OF_A_PERSON),
        Key("data", model.ANYTHING, "Data to decide by, shown beside the form.", rendered=_OF_A_PERSON),
        Key("assignee", ASSIGNEE),
        Key("form", FORM_FIELD, "The answer's fields.", items=True),
        Key(
            "due_date",
            {"type": ["number", "string"]},
            "When it is due: a time, or a length of time from now.",
            rendered=_OF_A_PERSON,
        ),
        Key("escalation", ESCALATION),
        Key("spec", HUMAN_TASK_SPEC),
    ),
    doc="Asks a person, and waits for the answer.",
)
TIMEOUT_SPEC = Construct("the spec of a timeout", (Key("on_timeout", model.words("alternative", "fail", "ignore")),))


def _alternative() -> model.Schema:
    """An alternative step is named where it is taken, and only beside an on_timeout that was chosen."""
    chosen = {"properties": {"spec": {"required": ["on_timeout"]}}, "required": ["spec"]}
    alternative = {
        "properties": {"spec": {"properties": {"on_timeout": {"const": "alternative"}}, "required": ["on_timeout"]}},
        "required": ["spec"],
    }
    return {
        "if": alternative,
        "then": {"required": ["alternative_step"]},
        "else": {"if": {"required": ["alternative_step"]}, "then": chosen},
    }


TIMEOUT = Construct(
    "a timeout",
    (
        Key("duration", model.DURATION, required=True, rendered=RenderedAt(TemplateSite.TIMEOUT, "a timeout")),
        Key("alternative_step", model.STATIC, "Where the token goes with on_timeout: alternative."),
        Key("spec", TIMEOUT_SPEC),
    ),
    doc="Bounds the whole step run; fails it when left at that.",
    rules=_alternative(),
)
COMPENSATE_SPEC = Construct("the spec of compensate", (Key("idempotent", model.FLAG),))
COMPENSATE = Construct(
    "compensate",
    (Key("tool", model.TOOL, required=True), Key("spec", COMPENSATE_SPEC)),
    doc="What undoes this step, once it has succeeded.",
)
HANDLER = Construct(
    "an event handler",
    (
        Key("event", model.TEXT, "Name of the event.", required=True),
        Key("when", model.ref("guard"), rendered=RenderedAt(TemplateSite.HANDLER, "an event handler")),
        Key("then", model.ref("tasks"), required=True),
    ),
)
ON_EVENT_SPEC = Construct("the spec of on_event", (Key("interrupting", model.FLAG),))
_HANDLERS: model.Schema = model.array(HANDLER.schema(), minItems=1)
ON_EVENT = Construct("on_event", (Key("spec", ON_EVENT_SPEC), Key("handlers", _HANDLERS, required=True)))

WAITS = ("timer", "message", "signal", "human_task")
BLOCKS = (
    Key("timer", TIMER, dialects=NOT_V2_EVAL),
    Key("message", MESSAGE, dialects=NOT_V2_EVAL),
    Key("signal", SIGNAL, dialects=NOT_V2_EVAL),
    Key("human_task", HUMAN_TASK, dialects=NOT_V2_EVAL),
    Key("timeout", TIMEOUT, dialects=NOT_V2_EVAL),
    Key("compensate", COMPENSATE, dialects=NOT_V2_EVAL),
    Key(
        "on_event",
        {"anyOf": [ON_EVENT.schema(), _HANDLERS]},  # a bare list never interrupts (C-36)
        "Tasks that run when an event comes while the step is active.",
        dialects=NOT_V2_EVAL,
    ),
)
