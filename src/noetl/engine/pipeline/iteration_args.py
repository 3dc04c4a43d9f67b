"""Step-level `args` of a looped step: those that read the iteration are rendered in each, the others once (design.md
§5).

What a token brings wins over both, as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.base.source import is_template
from noetl.engine.pipeline.scopes import Iteration, PipelineScope, task_scope, view_of
from noetl.events.orders import Iterations, Outer, Position, SideRunOrder
from noetl.net.net import Transition
from noetl.templates.expression import parse
from noetl.templates.render import render
from noetl.templates.values import Authored

_OF_ITERATION = frozenset({"iter", "loop", "loop_index"})


def once_and_each(step: Transition) -> tuple[dict[str, Any], dict[str, Any]]:
    """The args of a step as written: those rendered when it is admitted, and those of each iteration."""
    written = step.args.data if step.args is not None else {}
    if not written or not isinstance(written, dict) or step.loop is None:
        return written, {}
    names = _OF_ITERATION | _iterators(step)
    each = {key: value for key, value in written.items() if _reads(value, names)}
    return {key: value for key, value in written.items() if key not in each}, each


def with_iteration_args(step: Transition, around: PipelineScope, position: Position, *, now: float) -> PipelineScope:
    """What a pipeline of the iteration in `around` reads. TemplateError where an arg cannot be rendered."""
    _, each = once_and_each(step)
    written = {key: value for key, value in each.items() if key not in around.args}
    if not written or not step.tasks:
        return around
    args = render(Authored(written), task_scope(around, position, step.tasks[0]), now=now)
    return msgspec.structs.replace(around, args={**args, **around.args})


def _iterators(step: Transition) -> frozenset[str]:
    names, loop = set(), step.loop
    while loop is not None:
        names.add(loop.iterator)
        loop = loop.inner
    return frozenset(names)


def _reads(value: Any, names: frozenset[str]) -> bool:
    match value:
        case str() if is_template(value):
            return any(read.root in names for read in parse(value).references)
        case dict():
            return any(_reads(item, names) for item in value.values())
        case list():
            return any(_reads(item, names) for item in value)
        case _:
            return False


# Enclosing iterations: what is around an order that is no plain pipeline, as templates read it (LOOP-06, SAGA-01).
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
