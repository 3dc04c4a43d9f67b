"""Takes one order to its end, a step run or a range of iterations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from noetl.base.errors import TemplateError
from noetl.engine.pipeline.patches import written
from noetl.engine.pipeline.preparation import enclosing, iteration_of, side_run_surroundings, with_iteration_args
from noetl.engine.pipeline.result_schemas import kept_as_wanted
from noetl.engine.pipeline.scopes import Load, PipelineScope
from noetl.events.loops import IterationDone, IterationFailed, IterationStarted
from noetl.events.orders import Iterations, Order, Report
from noetl.events.outcomes import Error
from noetl.events.steps import StepDone, StepFailed
from noetl.events.v2_case_runs import CaseWaiting
from noetl.net.net import Net
from noetl.templates.scope import V2_CASE, V2_EVAL
from noetl.worker.order_context import Collections, Expired, OrderContext
from noetl.worker.pipeline_run import PipelineRun, SideRunPipeline
from noetl.worker.report_queue import IterationStopped
from noetl.worker.v2_case_run import run_of


async def run_order(place: OrderContext) -> Report:
    """Run the order to its end; the report of that end is the caller's to hand in. `LeaseLost` comes out when it
    turns out to be another worker's."""
    order = place.order
    around = order_scope(order, place.net, place.control_plane.load, place.facts.known_names)
    if order.iterations is not None:
        return await RangeRun(place, order.iterations, around, place.collections).to_end()
    try:
        end = await _pipeline(place, around).to_end(order.position)
    except Expired as expired:
        end = place.writer.ended(StepFailed(error=expired.error))
    if place.step.result is not None and isinstance(end, StepDone) and order.side_run is None:
        end = _with_output(place, end)
    place.journal.add(end)
    return place.journal.report()


def order_scope(order: Order, net: Net, load: Load, known: frozenset[str] | None) -> PipelineScope:
    """What the templates of an order read, before any of its tasks has run."""
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


def _pipeline(place: OrderContext, around: PipelineScope) -> PipelineRun:
    side_run, interrupted = place.order.side_run, place.order.interrupted
    if side_run is None:
        return run_of(place, around, interrupted=interrupted)
    return SideRunPipeline(place, side_run_surroundings(side_run, around), side_run, interrupted=interrupted)


def _with_output(place: OrderContext, end: StepDone) -> StepDone:
    """The step's own result as its author wants it kept. It is masked by now, and so is what is stored."""
    load, keep, limit_bytes = place.control_plane.load, place.writer.keep, place.facts.max_payload_bytes
    result = kept_as_wanted(end.result, place.step.result, load, keep, limit_bytes)
    return end if result is end.result else StepDone(result=result)


# A range of iterations: up to `slots` of them at a time, each a pipeline of its own, all under one lease (WRK-02).
#
# What the iterations do not share they cannot touch: each has its own `iter` and its own `ctx` (LOOP-03, SCOPE-06).
# Those that run one after another hand `ctx` and `vars` on. Whether the loop is done is the server's to say.


class _Stop(Exception):  # noqa: N818  nothing is wrong: the rest of the range is not wanted
    """An iteration failed, and so does the loop, or it has what it wanted: begin no other, stop the ones that run
    (LOOP-10)."""


class RangeRun:
    def __init__(self, place: OrderContext, iterations: Iterations, around: PipelineScope, items: Collections) -> None:
        self._place, self._its, self._around = place, iterations, around
        self._todo, self._waiting = _elements(iterations, items), len(_indices(iterations))
        self._enclosing = enclosing(iterations.outer)

    async def to_end(self) -> Report:
        """Run all of it; the report of the end is the caller's to hand in."""
        try:
            await self._slots()
        except _Stop:
            pass
        except Expired as expired:
            self._place.journal.add(StepFailed(error=expired.error))
        return self._place.journal.report()

    async def _slots(self) -> None:
        if self._its.slots == 1:
            await self._slot()
            return
        tasks = [asyncio.ensure_future(self._slot()) for _ in range(self._its.slots)]
        try:
            # no TaskGroup: one that is stopping its own swallows a cancellation that comes meanwhile
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        errors = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
        # A real error before `_Stop`: that one only says that some other iteration has ended the range.
        for error in sorted(errors, key=lambda error: isinstance(error, _Stop)):
            raise error

    async def _slot(self) -> None:
        """Run one iteration after another. Its end is durable before the next begins, but for nothing but noop."""
        for index, item in self._todo:
            self._waiting -= 1
            await self._iteration(index, item)
            if not self._waiting:
                return  # the last ones leave with the end of the order
            if not self._place.facts.only_noop or self._place.is_full:
                await self._place.flush()
            if self._its.path in self._place.journal.stopped:
                raise _Stop

    async def _iteration(self, index: int, item: Any) -> None:
        its, place = self._its, self._place
        path, position, interrupted = (*its.path, index), place.order.position, False
        resumed = its.begun.get(index) if its.begun else None
        ctx = self._around.ctx
        if resumed is None:
            place.journal.add(IterationStarted(index=index, path=path, worker_id=place.worker_id))
        else:
            position, interrupted = resumed.position, resumed.interrupted
            # What the earlier lease wrote in this iteration is not in the order's `ctx`: it is the iteration's own
            # until it ends.
            ctx = written(ctx, resumed.writes)
        iteration = iteration_of(its, self._enclosing, index, item)
        around = msgspec.structs.replace(self._around, ctx=ctx, iteration=iteration)
        try:
            around = with_iteration_args(place.step, around, position, now=place.clock.now())
        except TemplateError as problem:
            error = Error(kind=problem.kind, message=f'args of step "{place.step.name}": {problem}')
            self._note_ended(index, path, StepFailed(error=error), [])
            return
        run = run_of(place, around, interrupted=interrupted)
        try:
            end = await run.to_end(position)
        except IterationStopped:
            return
        assert not isinstance(end, CaseWaiting), "an iteration does not wait for events"
        # Sequential iterations: the next one of this range sees what this one wrote.
        if its.hands_on:
            self._around = msgspec.structs.replace(self._around, ctx=run.around.ctx, vars=run.around.vars)
        self._note_ended(index, path, end, self._added(run) if its.extend else [])

    def _added(self, run: PipelineRun) -> list[Any]:
        """What the iteration adds to the collection: `iter.extend` as it left it (beyond.md §1)."""
        added = run.position.iter.get("extend") if run.position is not None else None
        return added if isinstance(added, list) else []

    def _note_ended(self, index: int, path: tuple[int, ...], end: StepDone | StepFailed, added: list[Any]) -> None:
        if isinstance(end, StepDone):
            done = IterationDone(index=index, path=path, result=end.result, extend=added)
            self._place.journal.add(self._place.writer.masked(done) if added else done)
            return
        self._place.journal.add(IterationFailed(index=index, path=path, error=end.error))
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
