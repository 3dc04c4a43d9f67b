"""Takes one order to its end, a step run or a range of iterations."""

from __future__ import annotations

from noetl.engine.pipeline.iteration_args import side_run_surroundings
from noetl.engine.pipeline.result_schemas import kept_as_wanted
from noetl.engine.pipeline.scopes import Load, PipelineScope
from noetl.events.orders import Order, Report
from noetl.events.steps import StepDone, StepFailed
from noetl.net.net import Net
from noetl.templates.scopes import V2_CASE, V2_EVAL
from noetl.worker.iterations import RangeRun
from noetl.worker.lifetime import Expired
from noetl.worker.order_context import OrderContext
from noetl.worker.pipeline_run import PipelineRun, SideRunPipeline
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
