"""Small readings of already checked nodes: what lowering takes out of a `spec` mapping.

The readers have noted every wrong shape; here a wrong one simply counts as absent, so that a playbook with errors
still becomes as much of a net as it can.
"""

from __future__ import annotations

from typing import Any

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, data
from noetl.net.net import Concurrency, Rate
from noetl.templates.authored import Authored


def authored(node: Node | None) -> Authored | None:
    """What the author wrote, as it is rendered later; absence and null are None."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    return Authored(data(node))


def written(node: Node | None, otherwise: Any = None) -> Authored:
    """Like `authored`, for places that need a value."""
    return authored(node) or Authored(otherwise)


def inner(node: Node | None, *path: str) -> Node | None:
    """The value at `path` below `node`, through mappings only."""
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def word(node: Node | None, otherwise: str) -> str:
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else otherwise


def flag(node: Node | None) -> bool:
    return isinstance(node, Scalar) and node.value is True


def number(node: Node | None) -> int | None:
    whole = isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool)
    return node.value if whole and isinstance(node, Scalar) and isinstance(node.value, int) else None


def table(node: Node | None) -> dict[str, Any]:
    """A mapping as plain data, empty when there is none."""
    found: dict[str, Any] = data(node) if isinstance(node, Mapping) else {}
    return found


def words(node: Node | None) -> tuple[str, ...]:
    """One word or a list of words."""
    items = node.items if isinstance(node, Sequence) else (node,)
    return tuple(item.value for item in items if isinstance(item, Scalar) and isinstance(item.value, str))


# Concurrency and rate limits, lowered (beyond.md §1, design.md §8).


def lower_concurrency(node: Node | None) -> Concurrency | None:
    """`{limit, key, on_limit}`, or the limit alone."""
    limit = authored(node.get("limit") if isinstance(node, Mapping) else node)
    if limit is None:
        return None
    return Concurrency(limit=limit, key=authored(inner(node, "key")), on_limit=word(inner(node, "on_limit"), "queue"))


def lower_rate(node: Node | None) -> Rate | None:
    limit, per = authored(inner(node, "limit")), authored(inner(node, "per"))
    if limit is None or per is None:
        return None
    return Rate(limit=limit, per=per, key=authored(inner(node, "key")))
