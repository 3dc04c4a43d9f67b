"""Steps: their keys, their options, loop and router (DOC-10, ROUTE-01); `STEP`, at the end, is the step itself.

Before that, the blocks a step may have: timers, messages, signals, human tasks, timeouts, compensation, handlers.
"""

from __future__ import annotations

from noetl.language.grammar import model
from noetl.language.grammar.model import (
    NOT_V2_CASE,
    NOT_V2_EVAL,
    ONLY_V2_CASE,
    ONLY_V2_EVAL,
    ONLY_V10,
    Construct,
    Key,
    RenderedAt,
    Unknown,
)
from noetl.language.grammar.tasks import DEDUPE, LOOP_POLICY, MODES, NEXT_POLICY, STEP_POLICY, WRITES_TO_CTX
from noetl.templates.scope import TemplateSite, reserved_names

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
        Key("type", model.words("enum", "string", "text", "number", "integer", "boolean", "date"), "Of the answer."),
        Key("options", {"type": "array"}, "Of an enum: the values to choose from."),
        Key("required", model.FLAG, "Whether it must be answered."),
        Key("default", model.ANYTHING, "What the form begins with.", rendered=_OF_A_PERSON),
    ),
)
ASSIGNEE = Construct(
    "a human task's assignee",
    (
        Key("role", model.TEXT, "Whoever has this human role.", rendered=_OF_A_PERSON),
        Key("user", model.TEXT, "This person.", rendered=_OF_A_PERSON),
    ),
    doc="Who is asked: a role or a user.",
    rules={"minProperties": 1, "maxProperties": 1},
)
ESCALATION = Construct(
    "a human task's escalation",
    (
        Key("after", model.DURATION, "How long an answer is waited for before.", required=True, rendered=_OF_A_PERSON),
        Key("to_role", model.TEXT, "The human role it goes to.", rendered=_OF_A_PERSON),
        Key("to_user", model.TEXT, "The person it goes to.", rendered=_OF_A_PERSON),
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
        Key("escalation", ESCALATION, "Who it goes to when nobody answers."),
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
        # A bare list of handlers never interrupts (C-36).
        {"anyOf": [ON_EVENT.schema(), _HANDLERS]},
        "Tasks that run when an event comes while the step is active.",
        dialects=NOT_V2_EVAL,
    ),
)


# Options of a step

CONCURRENCY = Construct(
    "concurrency",
    (
        Key("key", model.TEXT, "Runs of the same key share the limit."),
        Key("limit", model.COUNT, "How many go on at once.", required=True),
        Key("on_limit", model.words("queue", "drop", "cancel_oldest"), "What becomes of those over the limit."),
    ),
    doc="How many runs of one key go on at once.",
    ref="concurrency",
)
RATE = Construct(
    "rate",
    (Key("key", model.TEXT), Key("limit", model.COUNT, required=True), Key("per", model.DURATION, required=True)),
)
LEASE = Construct(
    "lease",
    (Key("mode", model.words("single_owner")), Key("ttl", model.DURATION), Key("heartbeat", model.DURATION)),
    ref="lease",
)
JOIN = Construct(
    "join",
    (
        Key("mode", model.words("all", "any", "active")),
        Key("count", model.FIXED_COUNT),
        Key("rest", model.words("ignore", "block", "cancel")),
    ),
    rules={"oneOf": [{"required": ["mode"]}, {"required": ["count"]}]},
)
JOIN_FORMS: model.Schema = {
    "description": "How tokens of one fork meet here: all, any, active, {count: n}, or {mode, rest}.",
    "anyOf": [JOIN["mode"].schema, JOIN.schema()],
}
RESULT_STORE = Construct("result.store", (Key("kind", model.TEXT),), unknown=Unknown.KEPT)
RESULT = Construct(
    "result",
    (Key("store", RESULT_STORE), Key("output_select", model.array(model.TEXT))),
    doc="Where the result is kept.",
    unknown=Unknown.WARNED,
    ref="result",
)
STEP_SPEC = Construct(
    "a step's spec",
    (
        Key("policy", STEP_POLICY, dialects=ONLY_V10),
        Key("join", model.ref("join")),
        Key("concurrency", CONCURRENCY, rendered=RenderedAt(TemplateSite.ADMISSION, "spec.concurrency")),
        Key("rate", RATE, rendered=RenderedAt(TemplateSite.ADMISSION, "spec.rate")),
        Key("end", model.words("execution"), "Ends the whole execution with this step."),
        Key("pool", model.TEXT, "Workers that may run it.", rendered=RenderedAt(TemplateSite.ADMISSION, "spec.pool")),
        Key("lease", LEASE),
        Key("result", RESULT),
        Key("next_mode", MODES, "Whether the first arc that holds is taken, or every one.", dialects=ONLY_V2_EVAL),
        Key("case_mode", MODES, "Whether the first case that holds is taken, or every one.", dialects=ONLY_V2_CASE),
        Key("eval_mode", model.words("on_entry", "on_event"), "When the cases are judged.", dialects=ONLY_V2_CASE),
        Key("on_error", model.words("fail", "continue"), "Whether an error ends the step.", dialects=ONLY_V2_CASE),
        # A v2 step's timeout is the step's own lifetime; in v10 it is a default of its tasks (C-30).
        Key("timeout", model.DURATION, "How long the step may take.", dialects=ONLY_V2_EVAL | ONLY_V2_CASE),
    ),
    doc="How this step runs; further keys are defaults for its tasks.",
    unknown=Unknown.KEPT,
    rules=model.with_knobs(),
)

# Loops

LOOP_SPEC = Construct(
    "a loop's spec",
    (
        Key("mode", model.words("sequential", "parallel"), "One at a time, or several at once."),
        Key(
            "max_in_flight",
            model.COUNT,
            "In parallel: most iterations at once; 10 when left out.",
            rendered=RenderedAt(TemplateSite.LOOP_IN, "max_in_flight"),
        ),
        Key("batch_size", model.COUNT, "The older word for max_in_flight.", dialects=ONLY_V2_CASE),
        Key("on_error", model.words("fail", "continue"), "Whether an error ends the loop.", dialects=ONLY_V2_CASE),
        Key(
            "complete_when",
            model.ref("guard"),
            "Ends the loop early.",
            dialects=NOT_V2_CASE,
            rendered=RenderedAt(TemplateSite.NESTED_LOOP_IN, "complete_when"),
        ),
        Key("extend", model.FLAG, "Whether iterations may add items.", dialects=NOT_V2_CASE),
        Key("policy", LOOP_POLICY, dialects=ONLY_V10),
    ),
    unknown=Unknown.KEPT,
    rules=model.with_knobs(),
)
LOOP = Construct(
    "a loop",
    (
        Key(
            "in",
            {"anyOf": [{"type": ["array", "object"]}, model.ref("template")]},
            "What to loop over.",
            required=True,
            rendered=RenderedAt(TemplateSite.LOOP_IN),
        ),
        Key(
            "iterator",
            model.name_besides("index", "parent"),
            "Name of the current item: iter.<iterator>.",
            required=True,
        ),
        Key("collection", model.ANYTHING, "Another spelling of in.", dialects=ONLY_V2_CASE),
        Key("element", model.TEXT, "Another spelling of iterator.", dialects=ONLY_V2_CASE),
        Key("mode", model.words("sequential", "parallel"), "Another place of spec.mode.", dialects=ONLY_V2_CASE),
        Key("spec", LOOP_SPEC, "How it runs: several items at once, limits, and what completes it."),
        Key("loop", model.ref("loop"), "A loop inside this one."),
    ),
    doc="Runs the step's tasks once per item.",
    ref="loop",
)

# Routers

ARC_SPEC = Construct(
    "an arc's spec",
    (
        Key("delay", model.DURATION, "Sends the token this much later."),
        Key("priority", model.WHOLE, "Higher ones are taken up first."),
        Key("dedupe", DEDUPE),
        Key("partition", model.ANYTHING, "Runs of equal value go one after another."),
        Key("tokens", model.FIXED_COUNT, "How many tokens are sent."),
        Key(
            "cancel",
            {"anyOf": [model.words("execution"), model.array(model.STATIC)]},
            "Steps whose tokens are withdrawn.",
        ),
        Key("trigger_compensation", model.FLAG, "Runs all compensations first, the latest one first."),
    ),
)
ARC = Construct(
    "an arc",
    (
        Key("step", model.STATIC, "The step that comes next.", required=True),
        Key(
            "when",
            model.ref("guard"),
            "Condition; without one the arc takes every event but step.failed.",
            rendered=RenderedAt(TemplateSite.ARC),
        ),
        Key("args", model.DATA, "Payload of the token.", rendered=RenderedAt(TemplateSite.ARC)),
        Key(
            "set_ctx",
            model.DATA,
            "Variables of the execution, written when the arc fires.",
            rendered=RenderedAt(TemplateSite.ARC, names=True, into_ctx=True),
        ),
        Key(
            "spec",
            ARC_SPEC,
            "How its token is sent: later, with priority, once per key.",
            rendered=RenderedAt(TemplateSite.ARC),
        ),
    ),
    unknown=Unknown.WARNED,
    ref="arc",
)
ROUTER_SPEC = Construct(
    "next.spec",
    (
        Key("mode", MODES, "The first arc that holds, or every one."),
        Key("unguarded", model.words("always"), "Arcs without when take failures too."),
        Key("policy", NEXT_POLICY),
    ),
)
ROUTER = Construct(
    "next",
    (
        Key("spec", ROUTER_SPEC, "Whether the first arc that holds is taken, or every one."),
        Key("arcs", ARC, "The steps that may come next, each with its condition.", required=True, items=True),
    ),
    doc="Where tokens go when the step has ended.",
    ref="router",
)

# The step itself

_STEP_NAME: model.Schema = {"type": "string", "minLength": 1, "not": {"enum": sorted(reserved_names("v10"))}}
STEP = Construct(
    "a step",
    (
        Key("step", _STEP_NAME, "Name of the step.", required=True),
        Key("desc", model.TEXT, "What this step is for."),
        Key("spec", STEP_SPEC),
        Key("when", model.ref("guard"), "Whether a token is let in.", dialects=ONLY_V2_EVAL),
        Key("args", model.DATA, "Defaults under the token's args.", rendered=RenderedAt(TemplateSite.STEP_ARGS)),
        Key("loop", LOOP),
        Key("tool", model.TOOL, "What the step runs: one task, or a list of tasks run in order."),
        Key("retry", model.ANYTHING, "When the tool runs again.", dialects=ONLY_V2_CASE),
        Key(
            "vars",
            model.FREE,
            "Values written to ctx when the step has ended.",
            dialects=ONLY_V2_CASE,
            rendered=RenderedAt(TemplateSite.VARS, "vars", names=True, into_ctx=True),
        ),
        Key("sink", model.FREE, "A task that stores the result.", dialects=ONLY_V2_CASE),
        Key(
            "set_ctx",
            WRITES_TO_CTX,
            "Values written to ctx when the step has succeeded.",
            rendered=RenderedAt(TemplateSite.SET_CTX_STEP, names=True, into_ctx=True),
        ),
        Key("result", RESULT),
        Key("case", {"type": "array"}, "What follows which event of the step.", dialects=ONLY_V2_CASE, last=True),
        Key("next", ROUTER, last=True),
        *BLOCKS,
    ),
    doc="A step: what consumes a token, runs, and sends tokens on.",
    unknown=Unknown.WARNED,
    ref="step",
    rules={"not": {"required": ["loop"], "anyOf": [{"required": [name]} for name in WAITS]}},  # E_WAIT_LOOP
)
SHARED = (STEP, LOOP, ROUTER, ARC, CONCURRENCY, LEASE, RESULT)
