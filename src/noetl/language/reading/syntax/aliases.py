"""Aliases: `*name` repeats the value that `&name` marks, as a copy with paths of its own.

A copy is made only after its size and height were paid for, so that a few lines cannot unfold into millions of values.
"""

from __future__ import annotations

import re

import msgspec

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.syntax.limits import Budget

_WORD = re.compile(r"[\w-]+")


class Anchored(msgspec.Struct, frozen=True):
    """A value that aliases may repeat, with what repeating it costs."""

    node: Node
    nodes: int = 1
    height: int = 0


def below(path: str, key: str) -> str:
    """The path of a mapping's entry: `a.b`, or `a["x y"]` when the key is no single word."""
    if _WORD.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{msgspec.json.encode(key[:64]).decode()}]"


def moved(node: Node, path: str, budget: Budget) -> Node:
    """A copy of `node` with the paths of the alias; its spans stay where the text is. As deep as `check_depth` lets."""
    budget.spend_path(path, node.span)
    match node:
        case Scalar():
            return Scalar(node.value, node.span, path, node.plain)
        case Sequence():
            items = tuple(moved(item, f"{path}[{index}]", budget) for index, item in enumerate(node.items))
            return Sequence(items, node.span, path)
        case Mapping():
            paths = {name: below(path, name) for name in node.values}
            keys = {name: Scalar(name, key.span, paths[name], key.plain) for name, key in node.keys.items()}
            values = {name: moved(value, paths[name], budget) for name, value in node.values.items()}
            return Mapping(keys, values, node.span, path)
