"""Enclosing iterations: what is around an order that is no plain pipeline, as templates read it (LOOP-06, SAGA-01)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.pipeline.scopes import view_of
from noetl.pipeline.surroundings import Iteration, Surroundings
from noetl.records.orders import Errand, Outer


def enclosing(outer: Sequence[Outer]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """`iter.parent` of what is inside, and the bare names of the iterators around it."""
    parent: dict[str, Any] | None = None
    bare: dict[str, Any] = {}
    for one in outer:
        parent = {one.iterator: one.item, "index": one.index, "parent": parent}
        bare[one.iterator] = one.item
    return parent, bare


def errand_surroundings(errand: Errand, around: Surroundings) -> Surroundings:
    """What the templates of an errand read: the result it undoes, the event it handles, the iteration it belongs to."""
    names = dict(errand.names)
    if errand.result is not None:
        names["result"] = view_of(errand.result, around.load)
    changes: dict[str, Any] = {"names": {**around.names, **names}}
    if errand.outer:
        own, bare = enclosing(errand.outer)
        assert own is not None
        iterator = errand.outer[-1].iterator
        # a pipeline of its own: it has no path
        changes["iteration"] = Iteration(path=(), iterator=iterator, names=own, bare=bare)
    return msgspec.structs.replace(around, **changes)
