"""Shapes: the JSON Schema fragments that say what a key holds, and the rule that a template may stand for a value."""

from __future__ import annotations

from typing import Any

from noetl.templates.scope import RESERVED

Schema = dict[str, Any]

TEMPLATE: Schema = {"type": "string", "pattern": "\\{\\{|\\{%", "description": "A template: {{ … }}."}
ANYTHING: Schema = {}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
FREE: Schema = {"type": "object"}
SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}
# A name is read before anything runs, so it cannot be a template.
STATIC: Schema = {"type": "string", "minLength": 1, "not": {"pattern": "\\{\\{"}}
GUARD: Schema = {
    "anyOf": [
        FLAG,
        {"type": "string", "pattern": "\\{\\{|\\{%|^\\s*([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])\\s*$"},
    ]
}


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def words(*allowed: str) -> Schema:
    return {"enum": list(allowed)}


def array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def described_schema(schema: Schema, doc: str) -> Schema:
    """The schema with words that an editor shows beside it."""
    return {"description": doc, **{key: value for key, value in schema.items() if key != "description"}}


def mapping(properties: dict[str, Schema], *required: str, doc: str = "", closed: bool = True) -> Schema:
    """An object of these keys; closed objects refuse every other (DOC-10)."""
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return described_schema(schema, doc) if doc else schema


def templated(schema: Schema) -> Schema:
    """The schema with a template allowed wherever a value of another type is asked for, at any depth."""
    if not schema or "$ref" in schema:
        return schema
    inner = dict(schema)
    for part in ("properties", "items", "additionalProperties"):
        if part == "properties" and part in inner:
            inner[part] = {name: templated(value) for name, value in inner[part].items()}
        elif isinstance(inner.get(part), dict):
            inner[part] = templated(inner[part])
    if "anyOf" in inner:
        options = [templated(option) for option in inner["anyOf"]]
        inner["anyOf"] = (
            options if any(map(_takes_any_text, options)) else [*_flattened_options(options), ref("template")]
        )
        return inner
    if _takes_any_text(inner) or ("type" not in inner and "enum" not in inner):
        return inner
    doc = inner.pop("description", "")
    either: Schema = {"anyOf": [inner, ref("template")]}
    return described_schema(either, doc) if doc else either


def _takes_any_text(schema: Schema) -> bool:
    types = schema.get("type", ())
    is_text = types == "string" or "string" in types
    return is_text and not any(bound in schema for bound in ("enum", "pattern", "not"))


def _flattened_options(options: list[Schema]) -> list[Schema]:
    """Options flattened, so that a template is offered once."""
    flat = [inner for option in options for inner in (option["anyOf"] if set(option) == {"anyOf"} else [option])]
    return [option for option in flat if option != ref("template")]


def with_knobs() -> Schema:
    """The rule of a spec that may also hold defaults for tasks (SPEC-02)."""
    return {"allOf": [ref("knobs")]}


WHOLE = templated({"type": "integer"})
FIXED_COUNT: Schema = {"type": "integer", "minimum": 1}  # part of the net, so no template
COUNT = templated(FIXED_COUNT)
# Seconds, 1h30m, PT2H30M (noetl.base.durations), or a template.
_LENGTHS = (
    "^\\s*(\\d+([.,]\\d+)?"
    "|(\\d+([.,]\\d+)?([mM][sS]|[smhdwSMHDW]))+"
    "|P(?=.)(\\d+([.,]\\d+)?W)?(\\d+([.,]\\d+)?D)?"
    "(T(?=\\d)(\\d+([.,]\\d+)?H)?(\\d+([.,]\\d+)?M)?(\\d+([.,]\\d+)?S)?)?)\\s*$"
)
DURATION: Schema = {
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": f"{_LENGTHS}|{TEMPLATE['pattern']}"}]
}
DATA = templated(FREE)  # a mapping of the author's own names


def writes(*refused: str) -> Schema:
    """A mapping of names to write, of which these, and what is inside them, cannot be written (SCOPE-01, SCOPE-08)."""
    return templated(FREE | {"propertyNames": {"not": {"pattern": f"^\\s*({'|'.join(refused)})\\s*(\\.|$)"}}})


def name_besides(*taken: str) -> Schema:
    """A name that templates can read: an identifier that they do not keep for themselves (VAL-17)."""
    return {"type": "string", "pattern": "^[^\\W\\d_]\\w*$", "not": {"enum": sorted({*RESERVED, *taken})}}


# `tool` of a step: one task, or a list of them.
TOOL: Schema = {"if": {"type": "array"}, "then": ref("tasks"), "else": ref("item")}
