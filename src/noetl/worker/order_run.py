"""Runs one order to its end: a step run or a range of iterations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from noetl.base.errors import TemplateError
from noetl.engine.pipeline.patches import patched
from noetl.engine.pipeline.preparation import (
    enclosing_iterations,
    iteration_of,
    side_run_surroundings,
    with_iteration_args,
)
from noetl.engine.pipeline.result_schemas import stored_result
from noetl.engine.pipeline.scopes import Load, PipelineScope
from noetl.events.loops import IterationDone, IterationFailed, IterationStarted
from noetl.events.orders import Iterations, Order, Report
from noetl.events.outcomes import Error
from noetl.events.steps import CaseWaiting, StepDone, StepFailed
from noetl.net.net import Net
from noetl.templates.scope import V2_CASE, V2_EVAL
from noetl.worker.order_context import Collections, Expired, OrderContext
from noetl.worker.pipeline_run import PipelineRun, SideRunPipeline
from noetl.worker.reports import IterationStopped
from noetl.worker.v2_case_run import run_of


async def run_order(context: OrderContext) -> Report:
    """Run the order to its end and return the report of the end, which the caller sends. Raises `LeaseLost` if another
    worker has the order."""
    order = context.order
    around = order_scope(order, context.net, context.control_plane.load, context.facts.known_names)
    if order.iterations is not None:
        return await RangeRun(context, order.iterations, around, context.collections).to_end()
    try:
        end = await _pipeline(context, around).to_end(order.position)
    except Expired as expired:
        end = context.writer.ended(StepFailed(error=expired.error))
    if context.step.result is not None and isinstance(end, StepDone) and order.side_run is None:
        end = _with_output(context, end)
    context.journal.add(end)
    return context.journal.report()


def order_scope(order: Order, net: Net, load: Load, known: frozenset[str] | None) -> PipelineScope:
    """The scope of the templates of an order, before any of its tasks has run."""
    return PipelineScope(
        execution_id=order.execution_id,
        args=order.args,
        workload=order.workload,
        ctx=order.ctx,
        token=order.token,
        results=order.results,
        load=load,
        vars=order.vars if net.dialect == V2_EVAL else None,
        vars_in_ctx=net.dialect == V2_CASE,
        known=known,
    )


def _pipeline(context: OrderContext, around: PipelineScope) -> PipelineRun:
    side_run, interrupted = context.order.side_run, context.order.interrupted
    if side_run is None:
        return run_of(context, around, interrupted=interrupted)
    return SideRunPipeline(context, side_run_surroundings(side_run, around), side_run, interrupted=interrupted)


def _with_output(context: OrderContext, end: StepDone) -> StepDone:
    """The step's result in the form that its `result` block asks for. It is masked already, so stored values are
    too."""
    load, keep, limit_bytes = context.control_plane.load, context.writer.keep, context.facts.max_payload_bytes
    result = stored_result(end.result, context.step.result, load, keep, limit_bytes)
    return end if result is end.result else StepDone(result=result)


# A range of iterations: up to `slots` of them at a time, each a pipeline of its own, all under one lease (WRK-02).
#
# Iterations are isolated: each has its own `iter` and its own `ctx` (LOOP-03, SCOPE-06). Sequential iterations pass
# `ctx` and `vars` on. The server decides whether the loop is done.


class _Stop(Exception):  # noqa: N818  not an error: the rest of the range is not needed
    """An iteration failed and fails the loop, or the loop has its result: begin no other iteration, and stop the
    running ones (LOOP-10)."""


class RangeRun:
    def __init__(
        self, context: OrderContext, iterations: Iterations, around: PipelineScope, items: Collections
    ) -> None:
        self._context, self._its, self._around = context, iterations, around
        self._todo, self._waiting = _elements(iterations, items), len(_indices(iterations))
        self._enclosing = enclosing_iterations(iterations.outer)

    async def to_end(self) -> Report:
        """Run the whole range and return the report of the end, which the caller sends."""
        try:
            await self._slots()
        except _Stop:
            pass
        except Expired as expired:
            self._context.journal.add(StepFailed(error=expired.error))
        return self._context.journal.report()

    async def _slots(self) -> None:
        # One iteration at a time needs no tasks of asyncio.
        if self._its.slots == 1:
            await self._slot()
            return
        tasks = [asyncio.ensure_future(self._slot()) for _ in range(self._its.slots)]
        try:
            # no TaskGroup: while it stops its tasks, it swallows a cancellation from outside
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        errors = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
        # A real error comes before `_Stop`, which only says that another iteration has ended the range.
        for error in sorted(errors, key=lambda error: isinstance(error, _Stop)):
            raise error

    async def _slot(self) -> None:
        """Run one iteration after another. The end of each is stored before the next begins, unless it has only noop
        tasks."""
        for index, item in self._todo:
            self._waiting -= 1
            await self._iteration(index, item)
            if not self._waiting:
                return  # the report of the order's end includes the last ones
            if not self._context.facts.only_noop or self._context.is_full:
                await self._context.flush()
            if self._its.path in self._context.journal.stopped:
                raise _Stop

    async def _iteration(self, index: int, item: Any) -> None:
        its, context = self._its, self._context
        path, position, interrupted = (*its.path, index), context.order.position, False
        resumed = its.begun.get(index) if its.begun else None
        ctx = self._around.ctx
        if resumed is None:
            context.journal.add(IterationStarted(index=index, path=path, worker_id=context.worker_id))
        else:
            position, interrupted = resumed.position, resumed.interrupted
            # Writes of this iteration under an earlier lease are not in the order's `ctx`: they belong to the
            # iteration until it ends.
            ctx = patched(ctx, resumed.writes)
        iteration = iteration_of(its, self._enclosing, index, item)
        around = msgspec.structs.replace(self._around, ctx=ctx, iteration=iteration)
        try:
            around = with_iteration_args(context.step, around, position, now=context.clock.now())
        except TemplateError as problem:
            error = Error(kind=problem.kind, message=f'args of step "{context.step.name}": {problem}')
            self._note_ended(index, path, StepFailed(error=error), [])
            return
        run = run_of(context, around, interrupted=interrupted)
        try:
            end = await run.to_end(position)
        except IterationStopped:
            return
        assert not isinstance(end, CaseWaiting), "an iteration does not wait for events"
        # Sequential iterations: the next one of this range sees what this one wrote.
        if its.hands_on:
            self._around = msgspec.structs.replace(self._around, ctx=run.around.ctx, vars=run.around.vars)
        self._note_ended(index, path, end, self._added_items(run) if its.extend else [])

    def _added_items(self, run: PipelineRun) -> list[Any]:
        """The items that the iteration adds to the collection: its final `iter.extend` (beyond.md §1)."""
        added = run.position.iter.get("extend") if run.position is not None else None
        return added if isinstance(added, list) else []

    def _note_ended(self, index: int, path: tuple[int, ...], end: StepDone | StepFailed, added: list[Any]) -> None:
        if isinstance(end, StepDone):
            done = IterationDone(index=index, path=path, result=end.result, extend=added)
            self._context.journal.add(self._context.writer.masked(done) if added else done)
            return
        self._context.journal.add(IterationFailed(index=index, path=path, error=end.error))
        if self._its.fail_fast:
            raise _Stop


def _indices(its: Iterations) -> Sequence[int]:
    return its.indices if its.indices is not None else range(its.first, its.last + 1)


def _elements(its: Iterations, collections: Collections) -> Iterator[tuple[int, Any]]:
    """The iterations to run, each with its element; those that had begun come first."""
    indices = _indices(its)
    if its.items is not None:
        pairs = zip(indices, its.items, strict=True)
    else:
        assert its.items_ref is not None
        items = collections.get(its.items_ref)
        pairs = zip(indices, (items[index] for index in indices), strict=True)
    if not its.begun:
        return pairs
    return iter(sorted(pairs, key=lambda pair: pair[0] not in its.begun))
