"""The YAML tree with a place for every value: the input of the readers.

Three kinds of node and nothing else. Scalars hold YAML 1.2 core values (null, bool, int, float, str); tags, anchors and
comments are gone. `path` is the place people use (`workflow[0].tool[1].spec`), `span` the text. A node that is `made`
was not written so: it replaces the text of its span (`noetl.language.reading.spellings`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.base.diagnostics import Span

type_names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "text"}


class Scalar(msgspec.Struct, frozen=True, gc=False):
    """A leaf. `plain` is false for quoted and block text, which YAML never gives another type."""

    value: bool | int | float | str | None
    span: Span
    path: str
    plain: bool = True
    made: bool = False


class Sequence(msgspec.Struct, frozen=True):
    items: tuple[Node, ...]
    span: Span
    path: str
    made: bool = False

    def __iter__(self) -> Iterator[Node]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class Mapping(msgspec.Struct, frozen=True):
    """Keys in document order. `keys` holds the key's own node (its span underlines the key)."""

    keys: dict[str, Scalar]
    values: dict[str, Node]
    span: Span
    path: str
    made: bool = False

    def get(self, key: str) -> Node | None:
        return self.values.get(key)

    def items(self) -> Iterator[tuple[str, Scalar, Node]]:
        """Each entry as (key, the key's node, the value's node)."""
        return ((name, self.keys[name], value) for name, value in self.values.items())

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __len__(self) -> int:
        return len(self.values)


Node = Scalar | Sequence | Mapping


def data(node: Node | None) -> Any:
    """The plain value of a node: dicts, lists and scalars."""
    match node:
        case None:
            return None
        case Scalar():
            return node.value
        case Sequence():
            return [data(item) for item in node.items]
        case Mapping():
            return {key: data(value) for key, value in node.values.items()}


def describe(node: Node) -> str:
    """The kind of a node, for messages: "a list", "text", "a mapping"."""
    match node:
        case Mapping():
            return "a mapping"
        case Sequence():
            return "a list"
        case Scalar():
            return type_names[type(node.value)]


def scalars(node: Node) -> Iterator[Scalar]:
    """Every scalar below `node` (not the keys), in document order."""
    match node:
        case Scalar():
            yield node
        case Sequence():
            for item in node.items:
                yield from scalars(item)
        case Mapping():
            for value in node.values.values():
                yield from scalars(value)


def inner(node: Node | None, *path: str) -> Node | None:
    """The value at `path` below `node`, through mappings only."""
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
