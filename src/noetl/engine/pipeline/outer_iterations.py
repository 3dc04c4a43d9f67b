"""Enclosing iterations: what is around an order that is no plain pipeline, as templates read it (LOOP-06, SAGA-01)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.engine.pipeline.pipeline_scope import Iteration, PipelineScope
from noetl.engine.pipeline.scopes import view_of
from noetl.events.orders import Iterations, Outer, SideRunOrder

Enclosing = tuple[dict[str, Any] | None, dict[str, Any]]


def enclosing(outer: Sequence[Outer]) -> Enclosing:
    """`iter.parent` of what is inside, and the bare names of the iterators around it."""
    parent: dict[str, Any] | None = None
    bare: dict[str, Any] = {}
    for one in outer:
        parent = {one.iterator: one.item, "index": one.index, "parent": parent}
        bare[one.iterator] = one.item
    return parent, bare


def iteration_of(its: Iterations, around: Enclosing, index: int, item: Any) -> Iteration:
    """One iteration of an order, inside those that `enclosing` gives of it."""
    parent, bare = around
    return Iteration(
        path=(*its.path, index),
        iterator=its.iterator,
        names={its.iterator: item, "index": index, "parent": parent},
        bare={**bare, its.iterator: item},
    )


def side_run_surroundings(side_run: SideRunOrder, around: PipelineScope) -> PipelineScope:
    """What the templates of a side run read: the result it undoes, the event it handles, the iteration it belongs
    to."""
    names = dict(side_run.names)
    if side_run.result is not None:
        names["result"] = view_of(side_run.result, around.load)
    changes: dict[str, Any] = {"names": {**around.names, **names}}
    if side_run.outer:
        own, bare = enclosing(side_run.outer)
        assert own is not None
        iterator = side_run.outer[-1].iterator
        # a pipeline of its own: it has no path
        changes["iteration"] = Iteration(path=(), iterator=iterator, names=own, bare=bare)
    return msgspec.structs.replace(around, **changes)
