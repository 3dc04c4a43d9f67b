"""Policies in the schema: a task's outcome rules, a step's admission, and the hints of the other scopes (VAL-06…12)."""

from __future__ import annotations

from noetl.language.json_schema.fragments import (
    ANYTHING,
    COUNT,
    DATA,
    DURATION,
    FLAG,
    FREE,
    GUARD,
    STATIC,
    TEXT,
    WHOLE,
    Schema,
    array,
    described_schema,
    mapping,
    ref,
    words,
    writes,
)
from noetl.net.kinds import Kinds

WRITES_TO_CTX = writes("workload", "keychain", "ctx", "iter", "vars", "execution_id")
WRITES_TO_ITER = writes("workload", "keychain", "ctx", "iter", "index", "parent")
RETRY_KEYS = ("attempts", "backoff", "delay", "max_delay", "jitter", "on_exhausted")
REDUCERS = ("sum", "count", "min", "max", "append", "extend", "union", "merge", "first", "last", "any", "all")


def definitions(kinds: Kinds) -> dict[str, Schema]:
    return {
        "guard": described_schema(GUARD, "A condition: a template, or true or false."),
        "directive": _directive(),
        "task_policy": _task_policy(),
        "admit": _admit(),
        "executor_policy": _executor_policy(kinds),
        "step_policy": _step_policy(),
        "loop_policy": _loop_policy(),
        "next_policy": _next_policy(),
    }


def ladder(then: Schema, *, bare_else: bool = True) -> Schema:
    """Rules `{when, then}`, the first true one deciding, and at most one `{else: {then}}`, which stands last."""
    rule = mapping({"when": ref("guard"), "then": then}, "when", "then")
    nested = mapping({"then": then}, "then")
    otherwise = mapping({"else": {"anyOf": [nested, then]} if bare_else else nested}, "else")
    return array({"anyOf": [rule, otherwise]}, contains={"required": ["else"]}, minContains=0, maxContains=1)


def _directive() -> Schema:
    directive = mapping(
        {
            "do": described_schema(
                words("retry", "jump", "continue", "break", "fail"), "What happens next; continue when left out."
            ),
            "to": described_schema(STATIC, "With jump: the task of this step to go on with."),
            "attempts": described_schema(COUNT, "With retry: every run counts, the first included."),
            "backoff": described_schema(words("none", "linear", "exponential"), "With retry: how the delay grows."),
            "delay": described_schema(DURATION, "With retry: how long to wait."),
            "max_delay": described_schema(DURATION, "With retry: the longest wait."),
            "jitter": described_schema(
                {"anyOf": [FLAG, *DURATION["anyOf"]]}, "With retry: how much the wait is spread."
            ),
            "on_exhausted": described_schema(
                words("continue", "fail"), "With retry: what follows the last attempt; fail when left out."
            ),
            "set_iter": described_schema(
                writes("workload", "keychain", "ctx", "iter", "index", "parent"), "Values written to iter."
            ),
            "set_ctx": described_schema(WRITES_TO_CTX, "Values written to ctx."),
        },
        doc="What a rule does with an outcome.",
    )
    return directive | {
        "allOf": [
            _only_with("jump", ("to",), needs="to"),
            _only_with("retry", RETRY_KEYS, needs="attempts"),
        ]
    }


def _only_with(do: str, keys: tuple[str, ...], *, needs: str) -> Schema:
    """Keys that mean something beside one directive only, one of them being needed there."""
    return {
        "if": {"properties": {"do": {"const": do}}, "required": ["do"]},
        "then": {"required": [needs]},
        "else": {"not": {"anyOf": [{"required": [key]} for key in keys]}},
    }


def _task_policy() -> Schema:
    hook = array({"allOf": [ref("task"), {"properties": {"spec": {"not": {"required": ["policy"]}}}}]})
    return mapping(
        {
            "mode": described_schema(words("exclusive"), "The first rule that matches decides."),
            "on_unmatched": described_schema(words("continue", "fail"), "What an error that no rule matches leads to."),
            "before": described_schema(hook, "Tasks run before the tool."),
            "after": described_schema(hook, "Tasks run after the directive is chosen."),
            "finally": described_schema(hook, "Tasks run on leaving the task in any way."),
            "rules": described_schema(
                ladder(ref("directive")), "From the top; the first rule that matches decides. else is last."
            ),
        },
        "rules",
        doc="What happens after each outcome of a task.",
    )


def _admit() -> Schema:
    then = mapping(
        {
            "allow": described_schema(FLAG, "Whether the token is let in."),
            "park": described_schema(FLAG, "Let the token wait, and judge again when ctx changes."),
            "set_token": described_schema(DATA, "Values kept with the token, readable as token.meta."),
        }
    ) | {"anyOf": [{"required": ["allow"]}, {"required": ["park"]}]}
    return mapping(
        {"mode": words("exclusive", "inclusive"), "rules": ladder(then) | {"minItems": 1}},
        "rules",
        doc="Whether a token is let into the step.",
    )


def _failure() -> Schema:
    return mapping({"mode": words("fail_fast", "best_effort")}, doc="How far a failure reaches.")


def _executor_policy(kinds: Kinds) -> Schema:
    timeouts: Schema = {"type": "object", "additionalProperties": ref("timeout")}
    return mapping(
        {
            "defaults": mapping(
                {"timeouts": timeouts, "resources": FREE, "on_unmatched": words("continue", "fail")},
                doc="Defaults by tool kind, or under default.",
            ),
            "results": mapping({"reference_first": FLAG}, doc="How results are kept."),
            "limits": described_schema(
                FREE, "Bounds of an execution: max_payload_bytes, max_task_runs, max_step_runs, …"
            ),
            "placement": FREE,
            "cost": FREE,
            **{name: described_schema(FREE, kind.policy_doc) for name, kind in kinds.items() if kind.policy_doc},
            "failure": _failure(),
            "compensation": described_schema(
                words("auto", "manual"), "Whether a failed execution compensates by itself."
            ),
        }
    )


def _step_policy() -> Schema:
    emitted = {"anyOf": [TEXT, mapping({"name": TEXT, "when": ref("guard"), "data": ANYTHING}, "name")]}
    return mapping(
        {
            "admit": ref("admit"),
            "lifecycle": mapping({"timeout_s": ref("timeout"), "deadline_s": ref("timeout")}, doc="Longest times."),
            "failure": _failure(),
            "emit": mapping({"events": array(emitted)}, doc="Events this step adds to the log."),
            "tracing": mapping({"enabled": FLAG, "attributes": FREE}),
            "quotas": mapping({key: {"type": "integer", "minimum": 1} for key in ("max_runs", "max_concurrent")}),
            "compensation": ANYTHING,
        },
        doc="Hints of a step; control belongs to its tasks.",
    )


def _loop_policy() -> Schema:
    return mapping(
        {
            "exec": described_schema(words("distributed", "local"), "Whether iterations are spread over workers."),
            "mode": words("sequential", "parallel"),
            "max_in_flight": COUNT,
            "ordering": words("index", "shuffle"),
            "reducers": described_schema(
                {"type": "object", "additionalProperties": words(*REDUCERS)}, "How writes to a key of ctx are folded."
            ),
            "ctx_writes": words("once", "last"),
            "backpressure": mapping({"max_queue": COUNT}),
            "partitioning": _partitioning(),
        }
    )


def _partitioning() -> Schema:
    return {"anyOf": [TEXT, mapping({"key": ANYTHING})]}


def dedupe() -> Schema:
    return mapping({"key": ANYTHING, "window": DURATION}, "key", doc="Drop a token whose key was sent before.")


def _next_policy() -> Schema:
    return mapping({"priority": WHOLE, "dedupe": dedupe(), "partitioning": _partitioning()})
