"""Concurrency and rate limits, lowered (beyond.md §1, design.md §8)."""

from __future__ import annotations

from noetl.language.compiling.lowering.values import authored, inner, word
from noetl.language.reading.nodes import Mapping, Node
from noetl.net.net import Concurrency, Rate


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
