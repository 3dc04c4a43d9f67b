"""The result of a step as its author wants it: its schema, and the parts of it that are kept (RES-07, design.md §5).

A schema is the part of JSON Schema that says what data looks like: types, members, items, bounds, choices. One that
uses anything else is refused when it is registered, rather than half understood when it matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.engine.pipeline.patches import at_path
from noetl.engine.pipeline.payloads import MAX_PAYLOAD_BYTES, Keep, fits, stored_apart
from noetl.engine.pipeline.scopes import Load
from noetl.events.outcomes import TaskResult, unwrapped
from noetl.net.net import StepResult

KEYWORDS = frozenset({
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
    "minLength", "maxLength", "minimum", "maximum", "anyOf", "allOf", "not",
})  # fmt: skip
WORDS = frozenset({"$schema", "$id", "$comment", "title", "description", "default", "examples"})  # that check nothing
MAX_DEPTH = 32
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength")
_SHOWN = 60  # characters of a wrong value
_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and float(value).is_integer(),
    "number": lambda value: _is_number(value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def schema_problem(schema: Any, place: str = "schema", depth: int = 0) -> str | None:
    """Why this cannot be registered; nothing where it can."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return f"{place} must be a mapping, and this is {_name(schema)}"
    if depth >= MAX_DEPTH:
        return f"{place} is nested deeper than {MAX_DEPTH}"
    # Refused instead of ignored: an author who writes a keyword relies on it.
    if unknown := sorted(schema.keys() - KEYWORDS - WORDS):
        return f'{place} has "{unknown[0]}", which is not checked here; {", ".join(sorted(KEYWORDS))} are'
    if problem := _wrong_shape(schema, place):
        return problem
    inner = (schema_problem(one, f"{place}.{name}", depth + 1) for name, one in _inner_schemas(schema))
    return next((problem for problem in inner if problem), None)


def _wrong_shape(schema: Mapping[str, Any], place: str) -> str | None:
    types = schema.get("type", [])
    for one in types if isinstance(types, list) else [types]:
        if not isinstance(one, str) or one not in _TYPES:
            return f'{place}.type is "{one}"; {", ".join(_TYPES)} are types'
    shapes: dict[str, tuple[type, ...]] = {
        **dict.fromkeys(("enum", "required", "anyOf", "allOf"), (list,)),
        **dict.fromkeys(_COUNTS, (int,)),
        "properties": (dict,),
        "minimum": (int, float),
        "maximum": (int, float),
    }
    for name, kinds in shapes.items():
        value = schema.get(name, kinds[0]())
        # For Python true is an integer, too.
        if not isinstance(value, kinds) or isinstance(value, bool):
            return f"{place}.{name} cannot be {_name(value)}"
    return None


def _inner_schemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((f"properties.{name}", one) for name, one in schema.get("properties", {}).items())
    for name in ("items", "additionalProperties", "not"):
        if name in schema:
            yield name, schema[name]
    for name in ("anyOf", "allOf"):
        yield from ((f"{name}[{at}]", one) for at, one in enumerate(schema.get(name, ())))


def mismatch(schema: Any, value: Any, place: str = "result") -> str | None:
    """The first thing in `value` that is not as `schema` says; nothing where it fits."""
    if isinstance(schema, bool):
        return None if schema else f"{place} is not allowed"
    return next(_mismatches(schema, value, place), None)


def _mismatches(schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_TYPES[one](value) for one in types):
            yield f"{place} is {_name(value)}, and {' or '.join(types)} is allowed"
    for name, allowed in (("enum", schema.get("enum")), ("const", [schema.get("const")])):
        if name in schema and not any(_are_equal_json(value, one) for one in allowed or ()):
            yield f"{place} is {_value_text(value)}, and {', '.join(map(_value_text, allowed or ()))} is allowed"
    yield from _out_of_bounds(schema, value, place)
    if isinstance(value, dict):
        yield from _members(schema, value, place)
    if isinstance(value, list) and "items" in schema:
        yield from (
            problem for at, one in enumerate(value) if (problem := mismatch(schema["items"], one, f"{place}[{at}]"))
        )
    yield from (problem for one in schema.get("allOf", ()) if (problem := mismatch(one, value, place)))
    if "anyOf" in schema and all(mismatch(one, value, place) for one in schema["anyOf"]):
        yield f"{place} is none of what is allowed there: {mismatch(schema['anyOf'][0], value, place)}"
    if "not" in schema and mismatch(schema["not"], value, place) is None:
        yield f"{place} is {_value_text(value)}, which is not allowed"


def _members(schema: Mapping[str, Any], value: Mapping[str, Any], place: str) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    yield from (f'{place} has no "{name}"' for name in schema.get("required", ()) if name not in value)
    for name, one in value.items():
        if problem := mismatch(known.get(name, others), one, f"{place}.{name}"):
            yield problem


def _out_of_bounds(schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
    size = len(value) if isinstance(value, str | list) else None
    least, most = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
    if size is not None and not schema.get(least, 0) <= size <= schema.get(most, size):
        yield f"{place} has a length of {size}, outside of {schema.get(least, 0)} to {schema.get(most, 'any')}"
    if _is_number(value) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{place} is {value}, outside of {schema.get('minimum', 'any')} to {schema.get('maximum', 'any')}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_equal_json(one: Any, other: Any) -> bool:
    """As JSON compares: 1 and 1.0 are the same, 1 and true are not."""
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _name(value: Any) -> str:
    return next((name for name, fits in _TYPES.items() if fits(value)), type(value).__name__)


def _value_text(value: Any) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# The result of a step as its author wants it kept: `result.store` and `result.output_select` (design.md §5).
#
# A step with a store option has a reference for a result of any size; the fields that are selected stay inline beside
# it.


def stored_result(
    result: TaskResult, wanted: StepResult | None, load: Load, keep: Keep, max_payload_bytes: int
) -> TaskResult:
    """The result of a step that has succeeded, stored if that was asked for, with the fields its step selects."""
    value = result.result
    if not asks_for_storing(wanted) or result.ref is not None or value is None:
        return with_selected_fields(result, wanted, load, max_payload_bytes)
    return with_selected_fields(
        stored_apart(result, keep), wanted, lambda _: value, max_payload_bytes
    )  # it is still in memory


def asks_for_storing(wanted: StepResult | None) -> bool:
    return wanted is not None and wanted.store is not None


def with_selected_fields(
    result: TaskResult, wanted: StepResult | None, load: Load, max_payload_bytes: int
) -> TaskResult:
    """The result with the fields its step selects, each under the last name of its path. Missing and large fields
    stay with the reference."""
    if wanted is None or not wanted.output_select or result.ref is None:
        return result
    full = load(result.ref)
    room = max_payload_bytes if max_payload_bytes > 0 else MAX_PAYLOAD_BYTES  # where references come first (RES-04)
    payload = unwrapped(full, wrapped=result.wrapped)
    inline = {}
    for path in wanted.output_select:
        value = at_path(payload, path)
        # A path may begin at the payload, as templates do, or at the whole result.
        value = at_path(full, path) if value is None else value
        if value is not None and fits(value, room):
            inline[path.rpartition(".")[2]] = value
    return msgspec.structs.replace(result, inline=inline)
