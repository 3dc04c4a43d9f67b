"""Construct and Key: the rows of the grammar, and what can be asked of them.

The shape of a key is a JSON Schema fragment or another construct. Keys are listed in the order in which people write
them, which is also the order of the formatter and of hints.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec

from noetl.templates.scope import DIALECTS, RESERVED, V2_CASE, V2_EVAL, V10, TemplateSite

# Shapes: the JSON Schema fragments for the values of keys, and the rule that a template may replace a value.

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
    # Text without bounds takes a template as it is.
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
# No template: the number is part of the net.
FIXED_COUNT: Schema = {"type": "integer", "minimum": 1}
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
# A mapping whose keys the author chooses.
DATA = templated(FREE)


def writes(*refused: str) -> Schema:
    """A mapping of names to write, of which these, and what is inside them, cannot be written (SCOPE-01, SCOPE-08)."""
    return templated(FREE | {"propertyNames": {"not": {"pattern": f"^\\s*({'|'.join(refused)})\\s*(\\.|$)"}}})


def name_besides(*taken: str) -> Schema:
    """A name that templates can read: an identifier that they do not keep for themselves (VAL-17)."""
    return {"type": "string", "pattern": "^[^\\W\\d_]\\w*$", "not": {"enum": sorted({*RESERVED, *taken})}}


# `tool` of a step: one task, or a list of them.
TOOL: Schema = {"if": {"type": "array"}, "then": ref("tasks"), "else": ref("item")}


EVERY_DIALECT = frozenset(DIALECTS)
ONLY_V10 = frozenset({V10})
ONLY_V2_EVAL = frozenset({V2_EVAL})
ONLY_V2_CASE = frozenset({V2_CASE})
NOT_V2_EVAL = EVERY_DIALECT - ONLY_V2_EVAL
NOT_V2_CASE = EVERY_DIALECT - ONLY_V2_CASE


class Unknown(StrEnum):
    """The treatment of a key that a construct does not have (DOC-10)."""

    # An error in every version of the document.
    REFUSED = "refused"
    # An error under noetl.io/v10 and --strict, else a warning.
    WARNED = "warned"
    # Accepted: it belongs to the author, to a plug-in, or to the tasks inside.
    KEPT = "kept"


class RenderedAt(msgspec.Struct, frozen=True):
    """Where the templates of a key are rendered."""

    # Decides which names a template may read there.
    site: TemplateSite
    # Name of the place in messages, if construct and key together do not say it.
    what: str = ""
    # Keys of the mapping are rendered too (TPL-01).
    names: bool = False
    into_ctx: bool = False  # its values stay in ctx


class Key(msgspec.Struct, frozen=True):
    """One key of a construct."""

    name: str
    shape: Schema | Construct
    # Shown by completion and on the page of keys.
    doc: str = ""
    required: bool = False
    dialects: frozenset[str] = EVERY_DIALECT  # the dialects that have it
    # The formatter puts it after unknown keys.
    last: bool = False
    # The value is a list of the construct.
    items: bool = False
    # Where its templates are rendered. None if there are none, or an inner construct declares them.
    rendered: RenderedAt | None = None

    @property
    def schema(self) -> Schema:
        shape = self.shape
        if isinstance(shape, Construct):
            shape = ref(shape.ref) if shape.ref else shape.schema()
        shape = array(shape) if self.items else shape
        return described_schema(shape, self.doc) if self.doc else shape

    @property
    def words(self) -> tuple[str, ...]:
        """The words it can hold, when it holds one of a few."""
        return tuple(self.schema["enum"])


class Construct(msgspec.Struct, frozen=True, dict=True):
    """A mapping of the document."""

    what: str  # its name in messages
    # In the order in which people write them. Formatter and hints use the same order.
    keys: tuple[Key, ...]
    doc: str = ""
    # How keys that are not listed are treated.
    unknown: Unknown = Unknown.REFUSED
    # Name among the definitions of the JSON Schema, for constructs that occur in several places.
    ref: str = ""
    # Schema rules about combinations of keys, such as one of two.
    rules: Schema = {}

    def __getitem__(self, name: str) -> Key:
        return self._by_name[name]

    def get(self, name: str) -> Key | None:
        return self._by_name.get(name)

    def names(self, dialect: str = V10) -> tuple[str, ...]:
        """The keys that a dialect has, in order."""
        return self._names[dialect]

    def in_dialect(self, dialect: str) -> tuple[Key, ...]:
        return tuple(key for key in self.keys if dialect in key.dialects)

    # Asked for every mapping of every document, so both are made once.
    @cached_property
    def _by_name(self) -> dict[str, Key]:
        return {key.name: key for key in self.keys}

    @cached_property
    def _names(self) -> dict[str, tuple[str, ...]]:
        return {dialect: tuple(key.name for key in self.in_dialect(dialect)) for dialect in DIALECTS}

    def schema(self) -> Schema:
        """The construct as v10 writes it, as JSON Schema."""
        keys = self.in_dialect(V10)
        required = [key.name for key in keys if key.required]
        closed = self.unknown is not Unknown.KEPT
        properties = {key.name: key.schema for key in keys}
        return mapping(properties, *required, doc=self.doc, closed=closed) | self.rules

    def ranks(self) -> dict[str, int]:
        """Where the formatter puts each key of any dialect; an unlisted key goes between these two groups."""
        first = [key.name for key in self.keys if not key.last]
        last = [key.name for key in self.keys if key.last]
        return {name: rank - len(first) for rank, name in enumerate(first)} | {
            name: 1 + rank for rank, name in enumerate(last)
        }
