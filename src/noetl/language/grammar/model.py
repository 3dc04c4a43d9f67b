"""Construct and Key: the rows of the grammar, and what can be asked of them.

The shape of a key is a JSON Schema fragment or another construct. Keys are listed in the order in which people write
them, which is also the order of the formatter and of hints.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

import msgspec

from noetl.language.grammar.shapes import Schema, array, described_schema, mapping, ref
from noetl.templates.scope import DIALECTS, V2_CASE, V2_EVAL, V10, TemplateSite

EVERY_DIALECT = frozenset(DIALECTS)
ONLY_V10 = frozenset({V10})
ONLY_V2_EVAL = frozenset({V2_EVAL})
ONLY_V2_CASE = frozenset({V2_CASE})
NOT_V2_EVAL = EVERY_DIALECT - ONLY_V2_EVAL
NOT_V2_CASE = EVERY_DIALECT - ONLY_V2_CASE


class Unknown(StrEnum):
    """What becomes of a key that a construct does not have (DOC-10)."""

    REFUSED = "refused"  # an error, whatever the version of the document
    WARNED = "warned"  # an error under noetl.io/v10 and --strict, else a warning
    KEPT = "kept"  # it belongs to the author, to a plug-in, or to the tasks inside


class RenderedAt(msgspec.Struct, frozen=True):
    """Where the templates of a key are rendered."""

    site: TemplateSite  # it decides which names may be read there
    what: str = ""  # the place in messages, where the construct and the key together do not name it
    names: bool = False  # the keys of the mapping are rendered too (TPL-01)
    into_ctx: bool = False  # its values stay in ctx


class Key(msgspec.Struct, frozen=True):
    """One key of a construct."""

    name: str
    shape: Schema | Construct
    doc: str = ""  # for people: completion, the page of keys
    required: bool = False
    dialects: frozenset[str] = EVERY_DIALECT  # the dialects that have it
    last: bool = False  # the formatter puts it after keys that it does not know
    items: bool = False  # a list of the construct, not the construct itself
    rendered: RenderedAt | None = None  # its templates; without it they are literal text, or belong to what is inside

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
    keys: tuple[Key, ...]  # in the order in which people write them: that of the formatter and of hints too
    doc: str = ""
    unknown: Unknown = Unknown.REFUSED  # what becomes of keys that are not listed
    ref: str = ""  # its name among the schema's definitions, for constructs that stand in several places
    rules: Schema = {}  # what the schema says about keys together, as one of two

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
        """Where the formatter puts each key of any dialect; a key that is not here stands between these two groups."""
        first = [key.name for key in self.keys if not key.last]
        last = [key.name for key in self.keys if key.last]
        return {name: rank - len(first) for rank, name in enumerate(first)} | {
            name: 1 + rank for rank, name in enumerate(last)
        }
