"""What a step may wait for, and what runs beside it: timers, messages, signals, human tasks, timeouts, compensation,
event handlers. `BLOCKS` are the keys of a step that hold them.
"""

from __future__ import annotations

from noetl.language.grammar import model
from noetl.language.grammar.model import NOT_V2_EVAL, Construct, Key, RenderedAt
from noetl.templates.scope import TemplateSite

_OF_A_TIMER = RenderedAt(TemplateSite.WAIT, "a timer")
_OF_A_MESSAGE = RenderedAt(TemplateSite.WAIT, "a message")
_OF_A_PERSON = RenderedAt(TemplateSite.WAIT, "a human task")

TIMER_SPEC = Construct(
    "the spec of a timer", (Key("cancellable", model.FLAG, "Whether noetl timer cancel may end it."),)
)
TIMER = Construct(
    "a timer",
    (
        Key("id", model.TEXT, "Readable as event.data.timer_id; the step's name when left out.", rendered=_OF_A_TIMER),
        Key("duration", model.DURATION, "How long to wait: 90, 48h, 1h30m, PT2H30M.", rendered=_OF_A_TIMER),
        Key("until", model.TEXT, "The moment to wait for: 2025-01-31T06:00:00Z.", rendered=_OF_A_TIMER),
        Key("spec", TIMER_SPEC, "Whether it can be cancelled."),
    ),
    doc="Waits for a time.",
    rules={"oneOf": [{"required": ["duration"]}, {"required": ["until"]}]},
)
MESSAGE_SPEC = Construct(
    "the spec of a message",
    (
        Key(
            "timeout_action",
            model.words("escalate", "fail", "ignore"),
            "What the timeout does: raise message.timeout for an arc (when left out), fail the step, or only log it.",
        ),
    ),
)
MESSAGE = Construct(
    "a message",
    (
        Key("name", model.TEXT, "Name of the message.", required=True, rendered=_OF_A_MESSAGE),
        Key("correlation", model.DATA, "What the message's correlation must hold.", rendered=_OF_A_MESSAGE),
        Key("timeout", model.DURATION, "After this long message.timeout is raised.", rendered=_OF_A_MESSAGE),
        Key("spec", MESSAGE_SPEC, "What happens when no message comes in time."),
    ),
    doc="Waits for a message.",
)
SIGNAL = Construct(
    "a signal",
    (
        Key(
            "name", model.TEXT, "Name of the signal.", required=True, rendered=RenderedAt(TemplateSite.WAIT, "a signal")
        ),
    ),
    doc="Waits for a signal of this name.",
)
FORM_FIELD = Construct(
    "a form field",
    (
        Key("field", model.TEXT, "Name of the value.", required=True),
        Key(
            "type", model.words("enum", "string", "text", "number", "integer", "boolean", "date"), "Type of the answer."
        ),
        Key("options", {"type": "array"}, "Values to choose from, for the type enum."),
        Key("required", model.FLAG, "Whether it must be answered."),
        Key("default", model.ANYTHING, "What the form begins with.", rendered=_OF_A_PERSON),
    ),
)
ASSIGNEE = Construct(
    "a human task's assignee",
    (
        Key("role", model.TEXT, "Anybody with this human role.", rendered=_OF_A_PERSON),
        Key("user", model.TEXT, "This person.", rendered=_OF_A_PERSON),
    ),
    doc="Who is asked: a role or a user.",
    rules={"minProperties": 1, "maxProperties": 1},
)
ESCALATION = Construct(
    "a human task's escalation",
    (
        Key("after", model.DURATION, "How long to wait for an answer first.", required=True, rendered=_OF_A_PERSON),
        Key("to_role", model.TEXT, "The human role it goes to.", rendered=_OF_A_PERSON),
        Key("to_user", model.TEXT, "The person it goes to.", rendered=_OF_A_PERSON),
    ),
)
HUMAN_TASK_SPEC = Construct(
    "the spec of a human task",
    (
        Key(
            "escalation_mode",
            model.words("reassign", "notify"),
            "Whether escalation passes the task on (when left out), or only notifies.",
        ),
    ),
)
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
        Key("escalation", ESCALATION, "Whom it is passed to when nobody answers."),
        Key("spec", HUMAN_TASK_SPEC, "What escalation does."),
    ),
    doc="Asks a person, and waits for the answer.",
)
TIMEOUT_SPEC = Construct(
    "the spec of a timeout",
    (
        Key(
            "on_timeout",
            model.words("alternative", "fail", "ignore"),
            "What the timeout does: fail the step (when left out), lead to alternative_step, or only log it.",
        ),
    ),
)


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
        Key(
            "duration",
            model.DURATION,
            "How long the step may take, its tools and waits included.",
            required=True,
            rendered=RenderedAt(TemplateSite.TIMEOUT, "a timeout"),
        ),
        Key("alternative_step", model.STATIC, "Where the token goes with on_timeout: alternative."),
        Key("spec", TIMEOUT_SPEC, "What happens then."),
    ),
    doc="Limits the duration of the whole step run, and fails it unless spec.on_timeout says otherwise.",
    rules=_alternative(),
)
COMPENSATE_SPEC = Construct(
    "the spec of compensate",
    (Key("idempotent", model.FLAG, "Whether it may be repeated when a worker is lost during it."),),
)
COMPENSATE = Construct(
    "compensate",
    (
        Key("tool", model.TOOL, "The task that undoes the step, or a list of them.", required=True),
        Key("spec", COMPENSATE_SPEC, "Whether it may be repeated."),
    ),
    doc="What undoes this step, once it has succeeded.",
)
HANDLER = Construct(
    "an event handler",
    (
        Key("event", model.TEXT, "Name of the event.", required=True),
        Key(
            "when",
            model.ref("guard"),
            "Condition; it reads the event.",
            rendered=RenderedAt(TemplateSite.HANDLER, "an event handler"),
        ),
        Key("then", model.ref("tasks"), "The tasks to run.", required=True),
    ),
)
ON_EVENT_SPEC = Construct(
    "the spec of on_event",
    (Key("interrupting", model.FLAG, "Whether the step's own tasks are stopped when a handler starts."),),
)
_HANDLERS: model.Schema = model.array(HANDLER.schema(), minItems=1)
ON_EVENT = Construct(
    "on_event",
    (
        Key("spec", ON_EVENT_SPEC, "Whether a handler interrupts the step."),
        Key("handlers", _HANDLERS, "Events, each with the tasks to run.", required=True),
    ),
)

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
        # A bare list of handlers never interrupts (C-36).
        {"anyOf": [ON_EVENT.schema(), _HANDLERS]},
        "Tasks that run when an event comes while the step is active.",
        dialects=NOT_V2_EVAL,
    ),
)
