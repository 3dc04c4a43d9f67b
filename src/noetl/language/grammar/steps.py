"""Steps: their keys, their options, loop and router (DOC-10, ROUTE-01); `STEP`, at the end, is the step itself."""

from __future__ import annotations

from noetl.language.grammar import model
from noetl.language.grammar.model import (
    NOT_V2_CASE,
    ONLY_V2_CASE,
    ONLY_V2_EVAL,
    ONLY_V10,
    Construct,
    Key,
    RenderedAt,
    Unknown,
)
from noetl.language.grammar.policies import DEDUPE, LOOP_POLICY, MODES, NEXT_POLICY, STEP_POLICY, WRITES_TO_CTX
from noetl.language.grammar.waits import BLOCKS, WAITS
from noetl.templates.scope import TemplateSite, reserved_names

# Options of a step

CONCURRENCY = Construct(
    "concurrency",
    (
        Key("key", model.TEXT, "Runs of the same key share the limit."),
        Key("limit", model.COUNT, "How many run at once.", required=True),
        Key(
            "on_limit",
            model.words("queue", "drop", "cancel_oldest"),
            "What happens to a run over the limit: it waits (when left out), is dropped, or the oldest is cancelled.",
        ),
    ),
    doc="How many runs of one key run at once.",
    ref="concurrency",
)
RATE = Construct(
    "rate",
    (
        Key("key", model.TEXT, "Runs of the same key share the rate."),
        Key("limit", model.COUNT, "How many runs may start in each period.", required=True),
        Key("per", model.DURATION, "The length of the period.", required=True),
    ),
)
LEASE = Construct(
    "lease",
    (
        Key("mode", model.words("single_owner"), "One worker at a time, the only mode."),
        Key("ttl", model.DURATION, "How long a lease lasts if it is not renewed; 30 s when left out."),
        Key("heartbeat", model.DURATION, "How often the worker renews it; 5 s when left out."),
    ),
    ref="lease",
)
JOIN = Construct(
    "join",
    (
        Key(
            "mode",
            model.words("all", "any", "active"),
            "Wait for all tokens, the first one, or all that can still come.",
        ),
        Key("count", model.FIXED_COUNT, "Wait for this many tokens."),
        Key(
            "rest",
            model.words("ignore", "block", "cancel"),
            "What happens to the other tokens: drop them when they arrive, let the next fork wait for them, or "
            "withdraw them.",
        ),
    ),
    rules={"oneOf": [{"required": ["mode"]}, {"required": ["count"]}]},
)
JOIN_FORMS: model.Schema = {
    "description": "How tokens of one fork meet here: all, any, active, {count: n}, or {mode, rest}.",
    "anyOf": [JOIN["mode"].schema, JOIN.schema()],
}
RESULT_STORE = Construct("result.store", (Key("kind", model.TEXT, "The kind of store."),), unknown=Unknown.KEPT)
RESULT = Construct(
    "result",
    (
        Key("store", RESULT_STORE, "Stores the result apart, however small it is."),
        Key("output_select", model.array(model.TEXT), "Paths of the fields that stay in the event."),
    ),
    doc="Where the result is kept.",
    unknown=Unknown.WARNED,
    ref="result",
)
STEP_SPEC = Construct(
    "a step's spec",
    (
        Key(
            "policy", STEP_POLICY, "Admission, time limits, quotas, events and tracing of the step.", dialects=ONLY_V10
        ),
        Key("join", model.ref("join"), "How tokens of one fork meet here."),
        Key("concurrency", CONCURRENCY, rendered=RenderedAt(TemplateSite.ADMISSION, "spec.concurrency")),
        Key(
            "rate",
            RATE,
            "How many runs may start in a period.",
            rendered=RenderedAt(TemplateSite.ADMISSION, "spec.rate"),
        ),
        Key("end", model.words("execution"), "Ends the whole execution with this step."),
        Key("pool", model.TEXT, "Workers that may run it.", rendered=RenderedAt(TemplateSite.ADMISSION, "spec.pool")),
        Key("lease", LEASE, "How long a worker may hold an order of this step without renewing it."),
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
        Key("policy", NEXT_POLICY, "Priority and grouping of the tokens that all arcs send."),
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
