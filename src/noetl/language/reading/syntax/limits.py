"""Limits of a document, paid for before anything is built (reliability.md §2.7).

Each number is far above what a playbook needs and far below what hurts a server that reads strangers' files.
"""

from __future__ import annotations

import re

import msgspec

from noetl.base.source import Span
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.syntax.problems import refuse

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_EVENTS = 200_000
MAX_NODES = 50_000  # values, those that aliases repeat included
MAX_PATH_CHARACTERS = 8_000_000  # of all paths together: long keys above many values would fill the memory
MAX_TAG_DIRECTIVES = 64
MAX_PROBLEMS = 50  # a file with more mistakes than this is not a playbook


class Budget:
    """What is left to spend on one document; spending more refuses it at the place where that happened."""

    def __init__(self) -> None:
        self.nodes = 0
        self._path_characters = 0

    def spend(self, nodes: int, span: Span) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            refuse(span, f"the document has more than {MAX_NODES:,} values, aliases included")

    def spend_path(self, path: str, span: Span) -> None:
        self._path_characters += len(path)
        if self._path_characters > MAX_PATH_CHARACTERS:
            refuse(span, "the keys above this value are too long for a document of so many values")


def check_depth(depth: int, span: Span) -> None:
    if depth > MAX_DEPTH:
        refuse(span, f"the document is nested deeper than {MAX_DEPTH} levels")


# Aliases: `*name` repeats the value that `&name` marks, as a copy with paths of its own.

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
