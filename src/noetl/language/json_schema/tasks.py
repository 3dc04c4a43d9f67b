"""Tasks in the schema: one shape per tool kind, made from its declaration, and the sugar of task lists."""

from __future__ import annotations

from typing import Any

from noetl.language.json_schema.fragments import (
    COUNT,
    DATA,
    TEXT,
    Schema,
    array,
    described_schema,
    mapping,
    name_besides,
    ref,
    templated,
)
from noetl.language.json_schema.policies import ladder
from noetl.net.kinds import COMMON_SPEC, Input, Kinds, ToolKind

_NAME = name_besides()


def definitions(kinds: Kinds) -> dict[str, Schema]:
    shapes = {f"task_{name}": _of_kind(kind) for name, kind in kinds.items()}
    return {
        "timeout": _value(next(knob for knob in COMMON_SPEC if knob.name == "timeout")),
        "knobs": mapping({knob.name: _value(knob) for knob in COMMON_SPEC}, closed=False),
        "tasks": described_schema(array(ref("item"), minItems=0), "Tasks, run one after another."),
        "item": _item(),
        "task": _task(kinds),
        **shapes,
        "choose": _choose(),
        "while": _rounds("while", "Runs its tasks as long as the condition holds."),
        "until": _rounds("until", "Runs its tasks, and again until the condition holds."),
    }


def tool() -> Schema:
    """`tool` of a step: one task, or a list of them."""
    return {"if": {"type": "array"}, "then": ref("tasks"), "else": ref("item")}


def _item() -> Schema:
    """A task, or one of the constructs that are written in its place; told apart by their keys."""
    item: Schema = ref("task")
    for construct in ("until", "while", "choose"):
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
        "properties": {"kind": {"enum": list(kinds), "description": "Which tool runs.", "anyOf": documented}},
        "required": ["kind"],
        "allOf": by_kind,
    }


def _of_kind(kind: ToolKind) -> Schema:
    knobs = {"policy": ref("task_policy"), **{knob.name: _value(knob) for knob in kind.spec}}
    spec = mapping(knobs, closed=False, doc="How this task runs.") | {"allOf": [ref("knobs")]}
    properties: dict[str, Schema] = {
        "name": described_schema(_NAME, "Name of the task, for jumps and for reading its result."),
        "kind": {"const": kind.name},
        "desc": described_schema(TEXT, "What this task is for."),
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


def _choose() -> Schema:
    branches = ladder(ref("tasks"), bare_else=False) | {"minItems": 1}
    return mapping(
        {"name": _NAME, "desc": TEXT, "choose": branches}, "choose", doc="Runs the first branch whose condition holds."
    )


def _rounds(construct: str, doc: str) -> Schema:
    body = mapping(
        {"when": ref("guard"), "then": ref("tasks"), "max_rounds": described_schema(COUNT, "Most rounds it may take.")},
        "when",
        "then",
    )
    return mapping({"name": _NAME, "desc": TEXT, construct: body}, construct, doc=doc)
