"""Policies: the outcome rules of a task, the admission of a step, and the settings of a loop, a router or the executor
(VAL-06…12).
"""

from __future__ import annotations

import msgspec

from noetl.language.grammar import model
from noetl.language.grammar.model import Construct, Key, RenderedAt
from noetl.net.kinds import Kinds
from noetl.templates.scope import TemplateSite

WRITES_TO_CTX = model.writes("workload", "keychain", "ctx", "iter", "vars", "execution_id")
WRITES_TO_ITER = model.writes("workload", "keychain", "ctx", "iter", "index", "parent")
REDUCERS = ("sum", "count", "min", "max", "append", "extend", "union", "merge", "first", "last", "any", "all")
# exclusive: the first that matches. inclusive: all that match.
MODES = model.words("exclusive", "inclusive")
ENDS = model.words("continue", "fail")

# Keys of the error that a rule fails with.
ERROR_KEYS = ("kind", "message", "status", "code", "retryable", "details")

# Rules


def ladder(then: model.Schema, *, bare_else: bool = True) -> model.Schema:
    """Rules `{when, then}`, the first true one deciding, and at most one `{else: {then}}`, which comes last."""
    rule = model.mapping({"when": model.ref("guard"), "then": then}, "when", "then")
    nested = model.mapping({"then": then}, "then")
    otherwise = model.mapping({"else": {"anyOf": [nested, then]} if bare_else else nested}, "else")
    return model.array({"anyOf": [rule, otherwise]}, contains={"required": ["else"]}, minContains=0, maxContains=1)


def _only_with(do: str, keys: tuple[str, ...], *, needs: str) -> model.Schema:
    """Keys that mean something beside one directive only, one of them being needed there."""
    return {
        "if": {"properties": {"do": {"const": do}}, "required": ["do"]},
        "then": {"required": [needs]},
        "else": {"not": {"anyOf": [{"required": [key]} for key in keys]}},
    }


_OF_A_RULE = RenderedAt(TemplateSite.TASK_POLICY, "a policy rule")
RETRY_KEYS = (
    Key("attempts", model.COUNT, "With retry: every run counts, the first included.", rendered=_OF_A_RULE),
    Key("backoff", model.words("none", "linear", "exponential"), "With retry: how the delay grows."),
    Key("delay", model.DURATION, "With retry: how long to wait.", rendered=_OF_A_RULE),
    Key("max_delay", model.DURATION, "With retry: the longest wait.", rendered=_OF_A_RULE),
    Key(
        "jitter",
        {"anyOf": [model.FLAG, *model.DURATION["anyOf"]]},
        "With retry: how much the wait is spread.",
        rendered=_OF_A_RULE,
    ),
    Key("on_exhausted", ENDS, "With retry: what follows the last attempt; fail when left out."),
)
DIRECTIVE = Construct(
    "a directive",
    (
        Key(
            "do",
            model.words("retry", "jump", "continue", "break", "fail"),
            "What happens next; continue when left out. After an error, an item of a loop that continues counts as "
            "done: for a loop that goes on and reports its failures write spec.policy.failure.mode: best_effort in the "
            "step.",
        ),
        Key("to", model.STATIC, "With jump: the task of this step to go on with."),
        *RETRY_KEYS,
        Key(
            "error",
            {"anyOf": [model.TEXT, model.mapping(dict.fromkeys(ERROR_KEYS, model.ANYTHING))]},
            "With fail: a message, or `{kind, message, status, code}`; the outcome's error when left out.",
            dialects=model.ONLY_V10,
            rendered=_OF_A_RULE,
        ),
        Key(
            "set_iter",
            WRITES_TO_ITER,
            "Values written to iter.",
            rendered=RenderedAt(TemplateSite.TASK_POLICY, "set_iter", names=True),
        ),
        Key(
            "set_ctx",
            WRITES_TO_CTX,
            "Values written to ctx.",
            rendered=RenderedAt(TemplateSite.TASK_POLICY, "set_ctx", names=True, into_ctx=True),
        ),
        Key(
            "set_vars",
            model.DATA,
            "Values written to vars of the step run.",
            dialects=model.ONLY_V2_EVAL,
            rendered=RenderedAt(TemplateSite.TASK_POLICY, "set_vars", names=True),
        ),
        Key(
            "set_shared",
            model.DATA,
            "Values folded into vars when the loop ends.",
            dialects=model.ONLY_V2_EVAL,
            rendered=RenderedAt(TemplateSite.TASK_POLICY, "set_shared", names=True),
        ),
        Key(
            "set_prev",
            model.ANYTHING,
            "What the next task reads as _prev.",
            dialects=model.ONLY_V2_EVAL,
            rendered=_OF_A_RULE,
        ),
    ),
    doc="What a rule does with an outcome.",
    ref="directive",
    rules={
        "allOf": [
            _only_with("jump", ("to",), needs="to"),
            _only_with("retry", tuple(key.name for key in RETRY_KEYS), needs="attempts"),
            {"if": {"required": ["error"]}, "then": {"properties": {"do": {"const": "fail"}}, "required": ["do"]}},
        ]
    },
)
_HOOK = model.array({"allOf": [model.ref("task"), {"properties": {"spec": {"not": {"required": ["policy"]}}}}]})
TASK_POLICY = Construct(
    "a task policy",
    (
        Key("mode", model.words("exclusive"), "The first rule that matches decides."),
        Key("on_unmatched", ENDS, "What an error that no rule matches leads to."),
        Key("before", _HOOK, "Tasks run before the tool."),
        Key("after", _HOOK, "Tasks run after the directive is chosen."),
        Key("finally", _HOOK, "Tasks run on leaving the task in any way."),
        Key(
            "rules",
            ladder(model.ref("directive")),
            "From the top; the first rule that matches decides. else is last.",
            required=True,
        ),
    ),
    doc="What happens after each outcome of a task.",
    ref="task_policy",
)
ADMISSION = Construct(
    "an admission",
    (
        Key("allow", model.FLAG, "Whether the token is let in."),
        Key("park", model.FLAG, "Let the token wait, and judge again when ctx changes."),
        Key(
            "set_token",
            model.DATA,
            "Values kept with the token, readable as token.meta.",
            rendered=RenderedAt(TemplateSite.ADMISSION, "an admission rule"),
        ),
    ),
    rules={"anyOf": [{"required": ["allow"]}, {"required": ["park"]}]},
)
ADMIT = Construct(
    "admit",
    (
        Key("mode", MODES, "The first rule that holds decides, or all of them."),
        Key(
            "rules", ladder(ADMISSION.schema()) | {"minItems": 1}, "Conditions, each with allow or park.", required=True
        ),
    ),
    doc="Whether a token is let into the step.",
    ref="admit",
)

# Parts of the policies of executor, step, loop and router

FAILURE = Construct(
    "failure",
    (
        Key(
            "mode",
            model.words("fail_fast", "best_effort"),
            "With best_effort a loop continues when an item fails, completes, and reports the items that failed; they "
            "can be run again alone.",
        ),
    ),
    doc="How far a failure reaches.",
)
DEFAULTS = Construct(
    "defaults",
    (
        Key(
            "timeouts",
            {"type": "object", "additionalProperties": model.ref("timeout")},
            "Time limits of tasks, by kind.",
        ),
        Key("resources", model.FREE, "Limits of processes, by kind: memory, cpu_time, processes."),
        Key("on_unmatched", ENDS, "What an error that no rule matches leads to, for all tasks."),
    ),
    doc="Defaults by tool kind, or under default.",
)
RESULTS = Construct(
    "results",
    (Key("reference_first", model.FLAG, "Stores every result apart, whatever its size."),),
    doc="How results are kept.",
)
LIFECYCLE = Construct(
    "lifecycle",
    (
        Key("timeout_s", model.ref("timeout"), "How long a step run may take, from its start."),
        Key(
            "deadline_s",
            model.ref("timeout"),
            "When the step must have ended, counted from the start of the execution.",
        ),
    ),
    doc="Time limits of a step.",
)
EMITTED_EVENT = Construct(
    "an emitted event",
    (
        Key("name", model.TEXT, "Name of the event.", required=True),
        Key("when", model.ref("guard"), "Condition."),
        Key("data", model.ANYTHING, "Data of the event."),
    ),
)
EMIT = Construct(
    "emit",
    (Key("events", model.array({"anyOf": [model.TEXT, EMITTED_EVENT.schema()]}), "Names, or {name, when, data}."),),
    doc="Events this step adds to the log.",
)
TRACING = Construct(
    "tracing",
    (
        Key("enabled", model.FLAG, "Whether the attributes are added."),
        Key("attributes", model.FREE, "Names and values that each event of the step gets."),
    ),
)
QUOTAS = Construct(
    "quotas",
    (
        Key("max_runs", model.FIXED_COUNT, "How often the step may run in one execution."),
        Key("max_concurrent", model.FIXED_COUNT, "How many runs of the step may be active at once."),
    ),
)
BACKPRESSURE = Construct(
    "backpressure",
    (Key("max_queue", model.COUNT, "How many items may wait for a worker."),),
    doc="Bounds what waits for workers.",
)
PARTITIONING = Construct(
    "partitioning",
    (Key("key", model.ANYTHING, "Template of the key."),),
    doc="Runs of an equal key go one after another.",
)
_PARTITIONING_FORMS: model.Schema = {"anyOf": [model.TEXT, PARTITIONING.schema()]}
DEDUPE = Construct(
    "dedupe",
    (
        Key("key", model.ANYTHING, "Template of the key.", required=True),
        Key("window", model.DURATION, "How long a key counts as sent; for ever when left out."),
    ),
    doc="Drop a token whose key was sent before.",
)

# The policies themselves: each scope has its own list of keys

EXECUTOR_POLICY = Construct(
    "executor.spec.policy",
    (
        Key("defaults", DEFAULTS),
        Key("results", RESULTS),
        Key(
            "limits",
            model.FREE,
            "Limits of an execution: max_step_runs, max_task_runs, max_depth, max_payload_bytes, max_in_flight, and "
            "message_ttl, the greatest age of a message that its steps take.",
        ),
        Key("placement", model.FREE, "A hint for people that is kept with the net; nothing acts on it."),
        Key("cost", model.FREE, "A hint for people that is kept with the net; nothing acts on it."),
        Key("failure", FAILURE),
        Key("compensation", model.words("auto", "manual"), "Whether a failed execution compensates by itself."),
    ),
    ref="executor_policy",
)
STEP_POLICY = Construct(
    "step.spec.policy",
    (
        Key("admit", ADMIT),
        Key("lifecycle", LIFECYCLE, rendered=RenderedAt(TemplateSite.TIMEOUT, "lifecycle")),
        Key("failure", FAILURE),
        Key("emit", EMIT, rendered=RenderedAt(TemplateSite.EMIT, "an emitted event")),
        Key("tracing", TRACING, "Attributes that the events of the step get."),
        Key("quotas", QUOTAS, "How often, and how many at once, the step may run."),
        Key("compensation", model.ANYTHING, "A hint for people that is kept with the net; nothing acts on it."),
    ),
    doc="Hints of a step; control belongs to its tasks.",
    ref="step_policy",
)
LOOP_POLICY = Construct(
    "loop.spec.policy",
    (
        Key("exec", model.words("distributed", "local"), "Whether iterations are spread over workers."),
        Key("mode", model.words("sequential", "parallel"), "One item at a time, or several at once."),
        Key("max_in_flight", model.COUNT, "How many items at once."),
        Key("ordering", model.words("index", "shuffle"), "In which order items are taken up."),
        Key(
            "reducers",
            {"type": "object", "additionalProperties": model.words(*REDUCERS)},
            "How writes to a key of ctx are folded.",
        ),
        Key("ctx_writes", model.words("once", "last"), "Whether iterations may overwrite a key of ctx."),
        Key("backpressure", BACKPRESSURE, rendered=RenderedAt(TemplateSite.LOOP_IN, "backpressure")),
        Key(
            "partitioning",
            _PARTITIONING_FORMS,
            "Items of an equal key run one after another.",
            rendered=RenderedAt(TemplateSite.NESTED_LOOP_IN, "partitioning"),
        ),
    ),
    ref="loop_policy",
)
NEXT_POLICY = Construct(
    "next.spec.policy",
    (
        Key("priority", model.WHOLE, "Orders with a higher number are claimed first."),
        Key("dedupe", DEDUPE),
        Key("partitioning", _PARTITIONING_FORMS, "Runs of an equal key run one after another."),
    ),
    ref="next_policy",
)
SCOPES = {"executor": EXECUTOR_POLICY, "step": STEP_POLICY, "loop": LOOP_POLICY, "next": NEXT_POLICY}
SHARED = (DIRECTIVE, TASK_POLICY, ADMIT, STEP_POLICY, LOOP_POLICY, NEXT_POLICY)


def executor_policy(kinds: Kinds) -> Construct:
    """The executor's policy, with the tool kinds that have hints of their own."""
    tools = tuple(Key(name, model.FREE, kind.policy_doc) for name, kind in kinds.items() if kind.policy_doc)
    return msgspec.structs.replace(EXECUTOR_POLICY, keys=(*EXECUTOR_POLICY.keys, *tools))
