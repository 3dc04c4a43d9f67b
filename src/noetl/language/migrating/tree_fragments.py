"""Tree pieces: a rewritten document as pieces. What was written stays as it was written; what is new is written anew.

The rewriting of `noetl.language.reading.spellings` shares every part it did not change, and marks what it made. So
a node that
is not marked is a stretch of the old text.
"""

from __future__ import annotations

import re

from noetl.base.source import Source
from noetl.language.migrating.document_editor import item_id, key_id
from noetl.language.migrating.fragments import (
    CopiedEntry,
    Copier,
    FragmentEntry,
    Item,
    ListFragment,
    Mapped,
    Piece,
    literal,
    scalar_text,
)
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence

_BETWEEN = re.compile(r"\s*:(?:\s|#[^\n]*\n)*")  # what stands between a key and its value


def tree_pieces(root: Mapping, copier: Copier) -> Mapped:
    """The pieces of a whole document."""
    return _mapped(root, copier)


def node_piece(node: Node, copier: Copier, key: Scalar | None = None) -> Piece:
    """One value; `key` is the one it stood behind."""
    if not node.made:
        return copier.value(node, key)
    match node:
        case Scalar():
            return literal(node.value)
        case Sequence():
            items = (Item(node_piece(item, copier), item_id(item)) for item in node)
            return ListFragment(tuple(items), flow=copier.old.is_flow(node))
        case Mapping():
            return _mapped(node, copier)


def _mapped(node: Mapping, copier: Copier) -> Mapped:
    # A mapping that did not stand in the text has the place of what it was made from: a scalar, and no braces there.
    flow = copier.old.is_flow(node)
    entries = tuple(_entry(node, name, copier, flow=flow) for name in node.values)
    return Mapped(entries, flow=flow or _is_short(node))


def _entry(owner: Mapping, name: str, copier: Copier, *, flow: bool) -> FragmentEntry | CopiedEntry:
    key, value = owner.keys[name], owner.values[name]
    if not key.made and not value.made and not flow and _stand_together(key, value, copier.old.source):
        return copier.entry(owner, name)
    text = scalar_text(name) if key.made else copier.old.source.cut(key.span)
    return FragmentEntry(text, node_piece(value, copier, key), key_id(key))


def _stand_together(key: Scalar, value: Node, source: Source) -> bool:
    """Whether the value is still the one that was written behind this key."""
    return _BETWEEN.fullmatch(source.text, key.span.end, max(key.span.end, value.span.start)) is not None


def _is_short(node: Mapping) -> bool:
    """A new mapping of one plain value, which is easier to read on one line: `{do: fail}`."""
    return len(node) == 1 and all(isinstance(value, Scalar) and value.made for value in node.values.values())
