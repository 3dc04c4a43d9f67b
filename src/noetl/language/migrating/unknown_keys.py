"""Unknown keys: what an older dialect passed over and v10 refuses stays in the text, as a comment."""

from __future__ import annotations

from collections.abc import Collection

from noetl.language.migrating.fragments import CommentedEntry, Copier
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping


def kept_as_comments(copier: Copier, node: Mapping, known: Collection[str], notes: Notes) -> list[CommentedEntry]:
    """The keys of `node` that are not `known`, each with a note."""
    unknown = [key for key in node.values if key not in known]
    for key in unknown:
        notes.changed(node.keys[key], f'"{key}" has no meaning here and is kept as a comment')
    return [copier.commented(node, key) for key in unknown]


def only(node: Mapping, key: str) -> Mapping:
    """`node` with one of its keys, in its place."""
    return Mapping({key: node.keys[key]}, {key: node.values[key]}, node.span, node.path)
