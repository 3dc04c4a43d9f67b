"""Tasks: one shape per tool kind, made from its declaration, and the sugar of task lists."""

from __future__ import annotations

from typing import Any

from noetl.language.grammar.model import (
    COUNT,
    DATA,
    ONLY_V2_EVAL,
    TEXT,
    Construct,
    Key,
    Schema,
    Unknown,
    array,
    described_schema,
    mapping,
    name_besides,
    ref,
    templated,
    with_knobs,
)
from noetl.language.grammar.policies import TASK_POLICY, ladder
from noetl.net.kinds import COMMON_SPEC, Input, Kinds, ToolKind

_NAME = name_besides()
TASK_SPEC = Construct("a task's spec", (Key("policy", TASK_POLICY),), doc="How this task runs.", unknown=Unknown.KEPT)
# The keys of every task; the others are the inputs of its kind.
TASK = Construct(
    "a task",
    (
        Key("name", _NAME, "Name of the task, for jumps and for reading its result."),
        Key("kind", TEXT, "Which tool runs.", required=True),
        Key("desc", TEXT, "What this task is for."),
        Key("spec", TASK_SPEC, last=True),
        Key("eval", {"type": "array"}, "What happens after each outcome.", dialects=ONLY_V2_EVAL, last=True),
    ),
    unknown=Unknown.KEPT,
)
ROUNDS = Construct(
    "the rounds of while and until",
    (
        Key("when", ref("guard"), required=True),
        Key("then", ref("tasks"), required=True),
        Key("max_rounds", COUNT, "Most rounds it may take."),
    ),
)
_BRANCHES = ladder(ref("tasks"), bare_else=False) | {"minItems": 1}
SUGAR = {
    name: Construct(
        f"a {name}",
        (Key("name", _NAME), Key("desc", TEXT), Key(name, shape, required=True)),
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
        "knobs": mapping({knob.name: _value(knob) for knob in COMMON_SPEC}, closed=False),
        "tasks": described_schema(array(ref("item"), minItems=0), "Tasks, run one after another."),
        "item": _item(),
        "task": _task(kinds),
        **shapes,
        **{name: construct.schema() for name, construct in SUGAR.items()},
    }


def _item() -> Schema:
    """A task, or one of the constructs that are written in its place; told apart by their keys."""
    item: Schema = ref("task")
    for construct in reversed(SUGAR):
        item = {"if": {"required": [construct]}, "then": ref(construct), "else": item}
    return {"type": "object", **item}


def _task(kinds: Kinds) -> Schema:
    """A mapping with `kind`, whose value says which other keys there are."""
    by_kind = [
        {"if": {"properties": {"kind": {"const": name}}, "required": ["kind"]}, "then": ref(f"task_{name}")}
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
    spec = mapping(knobs, closed=False, doc=TASK_SPEC.doc) | with_knobs()
    properties: dict[str, Schema] = {
        "name": TASK["name"].schema,
        "kind": {"const": kind.name},
        "desc": TASK["desc"].schema,
        "spec": spec,
        "args": described_schema(DATA, "Arguments by name."),
    }
    for one in kind.inputs:
        properties |= {name: _value(one, name) for name in (one.name, *one.aliases)}
    shape = mapping(properties, "kind", closed=not kind.takes_anything, doc=kind.doc)
    needs = [(one.name,) for one in kind.inputs if one.required] + list(kind.one_of)
    if needs and kind.plugin is None:
        shape["allOf"] = [_any_present(kind, names) for names in needs]
    return shape


def _value(declared: Input, spelling: str = "") -> Schema:
    doc = declared.doc if spelling in ("", declared.name) else f"Another spelling of {declared.name}."
    schema = declared.schema if declared.verbatim else templated(declared.schema)
    return described_schema(schema, doc) if doc else schema


def _any_present(kind: ToolKind, names: tuple[str, ...]) -> dict[str, Any]:
    """That one of these inputs is there, by its name or another spelling of it."""
    declared = [one for one in kind.inputs if one.name in names]
    spellings = [spelling for one in declared for spelling in (one.name, *one.aliases)]
    return {"anyOf": [{"required": [spelling]} for spelling in spellings]}
