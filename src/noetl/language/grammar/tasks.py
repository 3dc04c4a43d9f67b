"""Tasks: one shape per tool kind, made from the declaration of the kind; control flow in task lists
(`choose`, `while`, `until`) has shapes of its own.
"""

from __future__ import annotations

from typing import Any

from noetl.language.grammar import model
from noetl.language.grammar.model import Construct, Key, Schema, Unknown
from noetl.language.grammar.policies import TASK_POLICY, ladder
from noetl.net.kinds import COMMON_SPEC, Input, Kinds, ToolKind

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
        Key("when", model.ref("guard"), "The condition that is checked for each round.", required=True),
        Key("then", model.ref("tasks"), "The tasks of a round.", required=True),
        Key("max_rounds", model.COUNT, "Most rounds it may take."),
    ),
)
_BRANCHES = ladder(model.ref("tasks"), bare_else=False) | {"minItems": 1}
SUGAR = {
    name: Construct(
        f"a {name}",
        (
            Key("name", _NAME, "Name of the construct."),
            Key("desc", model.TEXT, "What it is for."),
            Key(name, shape, doc, required=True),
        ),
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
