"""Steps in the schema: their keys, their loop, their options and the ways that lead on (DOC-10, ROUTE-01)."""

from __future__ import annotations

from noetl.language.json_schema.fragments import (
    ANYTHING,
    COUNT,
    DATA,
    DURATION,
    FLAG,
    STATIC,
    TEXT,
    WHOLE,
    Schema,
    array,
    described_schema,
    mapping,
    name_besides,
    ref,
    words,
)
from noetl.language.json_schema.policies import WRITES_TO_CTX, dedupe
from noetl.language.json_schema.tasks import tool
from noetl.language.json_schema.waits import blocks
from noetl.templates.scopes import reserved_names

_WAITS = ("timer", "message", "signal", "human_task")


def definitions() -> dict[str, Schema]:
    return {
        "step": _step(),
        "loop": _loop(),
        "router": _router(),
        "arc": _arc(),
        "join": _join(),
        "concurrency": mapping(
            {"key": TEXT, "limit": COUNT, "on_limit": words("queue", "drop", "cancel_oldest")},
            "limit",
            doc="How many runs of one key go on at once.",
        ),
        "lease": mapping({"mode": words("single_owner"), "ttl": DURATION, "heartbeat": DURATION}),
        "result": _result(),
    }


def with_knobs(spec: Schema) -> Schema:
    """A spec that may also hold defaults for tasks (SPEC-02)."""
    return spec | {"allOf": [ref("knobs")]}


def _step() -> Schema:
    step = mapping(
        {
            "step": described_schema(
                {"type": "string", "minLength": 1, "not": {"enum": sorted(reserved_names("v10"))}}, "Name of the step."
            ),
            "desc": described_schema(TEXT, "What this step is for."),
            "spec": _spec(),
            "args": described_schema(DATA, "Defaults under the token's args."),
            "loop": ref("loop"),
            "tool": described_schema(tool(), "What the step runs: one task, or a list of tasks run in order."),
            "set_ctx": described_schema(WRITES_TO_CTX, "Values written to ctx when the step has succeeded."),
            "result": ref("result"),
            "next": ref("router"),
            **blocks(),
        },
        "step",
        doc="A step: what consumes a token, runs, and sends tokens on.",
    )
    waiting = {"anyOf": [{"required": [name]} for name in _WAITS]}
    return step | {"not": {"required": ["loop"], **waiting}}  # E_WAIT_LOOP


def _spec() -> Schema:
    spec = mapping(
        {
            "policy": ref("step_policy"),
            "join": ref("join"),
            "concurrency": ref("concurrency"),
            "rate": mapping({"key": TEXT, "limit": COUNT, "per": DURATION}, "limit", "per"),
            "end": described_schema(words("execution"), "Ends the whole execution with this step."),
            "pool": described_schema(TEXT, "Workers that may run it."),
            "lease": ref("lease"),
            "result": ref("result"),
        },
        closed=False,
        doc="How this step runs; further keys are defaults for its tasks.",
    )
    return with_knobs(spec)


def _join() -> Schema:
    long = mapping(
        {
            "mode": words("all", "any", "active"),
            "count": {"type": "integer", "minimum": 1},
            "rest": words("ignore", "block", "cancel"),
        }
    ) | {"oneOf": [{"required": ["mode"]}, {"required": ["count"]}]}
    return {
        "description": "How tokens of one fork meet here: all, any, active, {count: n}, or {mode, rest}.",
        "anyOf": [words("all", "any", "active"), long],
    }


def _loop() -> Schema:
    spec = mapping(
        {
            "mode": described_schema(words("sequential", "parallel"), "One at a time, or several at once."),
            "max_in_flight": described_schema(COUNT, "In parallel: most iterations at once; 10 when left out."),
            "complete_when": described_schema(ref("guard"), "Ends the loop early."),
            "extend": described_schema(FLAG, "Whether iterations may add items."),
            "policy": ref("loop_policy"),
        },
        closed=False,
    )
    return mapping(
        {
            "in": described_schema({"anyOf": [{"type": ["array", "object"]}, ref("template")]}, "What to loop over."),
            "iterator": described_schema(name_besides("index", "parent"), "Name of the current item: iter.<iterator>."),
            "spec": with_knobs(spec),
            "loop": described_schema(ref("loop"), "A loop inside this one."),
        },
        "in",
        "iterator",
        doc="Runs the step's tasks once per item.",
    )


def _router() -> Schema:
    spec = mapping(
        {
            "mode": described_schema(words("exclusive", "inclusive"), "The first arc that holds, or every one."),
            "unguarded": described_schema(words("always"), "Arcs without when take failures too."),
            "policy": ref("next_policy"),
        }
    )
    return mapping({"spec": spec, "arcs": array(ref("arc"))}, "arcs", doc="Where tokens go when the step has ended.")


def _arc() -> Schema:
    spec = mapping(
        {
            "delay": described_schema(DURATION, "Sends the token this much later."),
            "priority": described_schema(WHOLE, "Higher ones are taken up first."),
            "dedupe": dedupe(),
            "partition": described_schema(ANYTHING, "Runs of equal value go one after another."),
            "tokens": described_schema({"type": "integer", "minimum": 1}, "How many tokens are sent."),
            "cancel": described_schema(
                {"anyOf": [words("execution"), array(STATIC)]}, "Steps whose tokens are withdrawn."
            ),
            "trigger_compensation": described_schema(FLAG, "Runs all compensations first, the latest one first."),
        }
    )
    return mapping(
        {
            "step": described_schema(STATIC, "The step that comes next."),
            "when": described_schema(ref("guard"), "Condition; without one the arc takes every event but step.failed."),
            "args": described_schema(DATA, "Payload of the token."),
            "set_ctx": described_schema(DATA, "Variables of the execution, written when the arc fires."),
            "spec": spec,
        },
        "step",
    )


def _result() -> Schema:
    store = mapping({"kind": TEXT}, closed=False)
    return mapping({"store": store, "output_select": array(TEXT)}, doc="Where the result is kept.")
