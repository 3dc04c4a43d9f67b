"""Tasks and policies.

A policy has the outcome rules of a task, the admission of a step, or the settings of a loop, a router or the executor
(VAL-06…12). A task has one shape per tool kind, made from the declaration of the kind; control flow in task lists
(`choose`, `while`, `until`) has shapes of its own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.language.grammar import model
from noetl.language.grammar.model import Construct, Key, RenderedAt, Schema, Unknown
from noetl.net.kinds import COMMON_SPEC, Input, Kinds, ToolKind
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
    (Key("mode", MODES), Key("rules", ladder(ADMISSION.schema()) | {"minItems": 1}, required=True)),
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
            "With best_effort a loop goes on when an item fails, completes, and reports the items that failed; they "
            "can be run again alone.",
        ),
    ),
    doc="How far a failure reaches.",
)
DEFAULTS = Construct(
    "defaults",
    (
        Key("timeouts", {"type": "object", "additionalProperties": model.ref("timeout")}),
        Key("resources", model.FREE),
        Key("on_unmatched", ENDS),
    ),
    doc="Defaults by tool kind, or under default.",
)
RESULTS = Construct("results", (Key("reference_first", model.FLAG),), doc="How results are kept.")
LIFECYCLE = Construct(
    "lifecycle",
    (Key("timeout_s", model.ref("timeout")), Key("deadline_s", model.ref("timeout"))),
    doc="Longest times.",
)
EMITTED_EVENT = Construct(
    "an emitted event",
    (Key("name", model.TEXT, required=True), Key("when", model.ref("guard")), Key("data", model.ANYTHING)),
)
EMIT = Construct(
    "emit",
    (Key("events", model.array({"anyOf": [model.TEXT, EMITTED_EVENT.schema()]})),),
    doc="Events this step adds to the log.",
)
TRACING = Construct("tracing", (Key("enabled", model.FLAG), Key("attributes", model.FREE)))
QUOTAS = Construct("quotas", (Key("max_runs", model.FIXED_COUNT), Key("max_concurrent", model.FIXED_COUNT)))
BACKPRESSURE = Construct(
    "backpressure",
    (Key("max_queue", model.COUNT, "How many items may wait for a worker."),),
    doc="Bounds what waits for workers.",
)
PARTITIONING = Construct(
    "partitioning", (Key("key", model.ANYTHING),), doc="Runs of an equal key go one after another."
)
_PARTITIONING_FORMS: model.Schema = {"anyOf": [model.TEXT, PARTITIONING.schema()]}
DEDUPE = Construct(
    "dedupe",
    (Key("key", model.ANYTHING, required=True), Key("window", model.DURATION)),
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
            "Limits of an execution: max_step_runs, max_task_runs, max_depth, max_payload_bytes, max_in_flight.",
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
        Key("tracing", TRACING),
        Key("quotas", QUOTAS),
        Key("compensation", model.ANYTHING),
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
        Key("partitioning", _PARTITIONING_FORMS, rendered=RenderedAt(TemplateSite.NESTED_LOOP_IN, "partitioning")),
    ),
    ref="loop_policy",
)
NEXT_POLICY = Construct(
    "next.spec.policy",
    (Key("priority", model.WHOLE), Key("dedupe", DEDUPE), Key("partitioning", _PARTITIONING_FORMS)),
    ref="next_policy",
)
SCOPES = {"executor": EXECUTOR_POLICY, "step": STEP_POLICY, "loop": LOOP_POLICY, "next": NEXT_POLICY}
SHARED = (DIRECTIVE, TASK_POLICY, ADMIT, STEP_POLICY, LOOP_POLICY, NEXT_POLICY)


def executor_policy(kinds: Kinds) -> Construct:
    """The executor's policy, with the tool kinds that have hints of their own."""
    tools = tuple(Key(name, model.FREE, kind.policy_doc) for name, kind in kinds.items() if kind.policy_doc)
    return msgspec.structs.replace(EXECUTOR_POLICY, keys=(*EXECUTOR_POLICY.keys, *tools))


_NAME = model.name_besides()
TASK_SPEC = Construct("a task's spec", (Key("policy", TASK_POLICY),), doc="How this task runs.", unknown=Unknown.KEPT)
# The keys of every task; the others are the inputs of its kind.
TASK = Construct(
    "a task",
    (
        Key("name", _NAME, "Name of the task, for jumps and for reading its result."),
        Key("kind", model.TEXT, "Which tool runs.", required=True),
        Key("desc", model.TEXT, "What this task is for."),
        Key("spec", TASK_SPEC, last=True),
        Key("eval", {"type": "array"}, "What happens after each outcome.", dialects=model.ONLY_V2_EVAL, last=True),
    ),
    unknown=Unknown.KEPT,
)
ROUNDS = Construct(
    "the rounds of while and until",
    (
        Key("when", model.ref("guard"), required=True),
        Key("then", model.ref("tasks"), required=True),
        Key("max_rounds", model.COUNT, "Most rounds it may take."),
    ),
)
_BRANCHES = ladder(model.ref("tasks"), bare_else=False) | {"minItems": 1}
SUGAR = {
    name: Construct(
        f"a {name}",
        (Key("name", _NAME), Key("desc", model.TEXT), Key(name, shape, required=True)),
        doc=doc,
        ref=name,
    )
    for name, shape, doc in (
        ("choose", _BRANCHES, "Runs the first branch whose condition holds."),
        ("while", ROUNDS, "Runs its tasks as long as the condition holds."),
        ("until", ROUNDS, "Runs its tasks, and again until the condition holds."),
    )
}


def definitions(kinds: Kinds) -> dict[str, Schema]:
    shapes = {f"task_{name}": _of_kind(kind) for name, kind in kinds.items()}
    return {
        "timeout": _value(next(knob for knob in COMMON_SPEC if knob.name == "timeout")),
        "knobs": model.mapping({knob.name: _value(knob) for knob in COMMON_SPEC}, closed=False),
        "tasks": model.described_schema(model.array(model.ref("item"), minItems=0), "Tasks, run one after another."),
        "item": _item(),
        "task": _task(kinds),
        **shapes,
        **{name: construct.schema() for name, construct in SUGAR.items()},
    }


def _item() -> Schema:
    """A task, or one of the constructs that are written in its place; distinguished by their keys."""
    item: Schema = model.ref("task")
    for construct in reversed(SUGAR):
        item = {"if": {"required": [construct]}, "then": model.ref(construct), "else": item}
    return {"type": "object", **item}


def _task(kinds: Kinds) -> Schema:
    """A mapping with `kind`, whose value says which other keys there are."""
    by_kind = [
        {"if": {"properties": {"kind": {"const": name}}, "required": ["kind"]}, "then": model.ref(f"task_{name}")}
        for name in kinds
    ]
    documented = [{"const": name, "description": kind.doc} for name, kind in kinds.items()]
    return {
        "type": "object",
        "description": "A tool call.",
        "properties": {"kind": {"enum": list(kinds), "description": TASK["kind"].doc, "anyOf": documented}},
        "required": ["kind"],
        "allOf": by_kind,
    }


def _of_kind(kind: ToolKind) -> Schema:
    knobs = {"policy": TASK_SPEC["policy"].schema, **{knob.name: _value(knob) for knob in kind.spec}}
    spec = model.mapping(knobs, closed=False, doc=TASK_SPEC.doc) | model.with_knobs()
    properties: dict[str, Schema] = {
        "name": TASK["name"].schema,
        "kind": {"const": kind.name},
        "desc": TASK["desc"].schema,
        "spec": spec,
        "args": model.described_schema(model.DATA, "Arguments by name."),
    }
    for one in kind.inputs:
        properties |= {name: _value(one, name) for name in (one.name, *one.aliases)}
    shape = model.mapping(properties, "kind", closed=not kind.takes_anything, doc=kind.doc)
    needs = [(one.name,) for one in kind.inputs if one.required] + list(kind.one_of)
    if needs and kind.plugin is None:
        shape["allOf"] = [_any_present(kind, names) for names in needs]
    return shape


def _value(declared: Input, spelling: str = "") -> Schema:
    doc = declared.doc if spelling in ("", declared.name) else f"Another spelling of {declared.name}."
    schema = declared.schema if declared.verbatim else model.templated(declared.schema)
    if spelling not in ("", declared.name):
        schema = schema | {"deprecated": True}  # an editor offers the other spelling
    return model.described_schema(schema, doc) if doc else schema


def _any_present(kind: ToolKind, names: tuple[str, ...]) -> dict[str, Any]:
    """That one of these inputs is there, by its name or another spelling of it."""
    declared = [one for one in kind.inputs if one.name in names]
    spellings = [spelling for one in declared for spelling in (one.name, *one.aliases)]
    return {"anyOf": [{"required": [spelling]} for spelling in spellings]}
