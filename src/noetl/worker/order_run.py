"""Takes one order to its end, a step run or a range of iterations."""

from __future__ import annotations

from noetl.base.clock import Clock
from noetl.base.redaction import Mask
from noetl.engine.pipeline.limits import max_payload_bytes
from noetl.engine.pipeline.outer_iterations import side_run_surroundings
from noetl.engine.pipeline.pipeline_scope import PipelineScope
from noetl.engine.pipeline.result_fields import kept_as_wanted
from noetl.events.orders import Order, Report
from noetl.events.steps import StepDone, StepFailed
from noetl.net.names import known_names
from noetl.net.net import Net
from noetl.templates.scopes import V2_CASE, V2_EVAL
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.calls import Lend, keep_slot
from noetl.worker.cancelled_orders import Begun
from noetl.worker.collections import Collections
from noetl.worker.control_plane import ControlPlane
from noetl.worker.iterations import RangeRun
from noetl.worker.leases import HeldLeases
from noetl.worker.lifetime import Expired
from noetl.worker.live_output import OutputSender
from noetl.worker.order_context import OrderContext
from noetl.worker.pipeline_run import PipelineRun, SideRunPipeline
from noetl.worker.report_queue import ReportQueue
from noetl.worker.slots import WorkerHandle
from noetl.worker.v2_case_run import run_of


class OrderRunner:
    """Runs one order. `LeaseLost` comes out of `run` when the order turns out to be another worker's."""

    def __init__(
        self,
        order: Order,
        net: Net,
        *,
        control_plane: ControlPlane,
        tools: Registry,
        clock: Clock,
        sleep: Sleep,
        worker_id: str,
        post: ReportQueue | None = None,
        mask: Mask | None = None,
        collections: Collections | None = None,
        lend: Lend = keep_slot,
        leases: HeldLeases | None = None,
        output: OutputSender | None = None,
    ) -> None:
        self._order, self._max_payload_bytes = order, max_payload_bytes(net)
        self._collections = collections or Collections(control_plane.load)
        self._place = OrderContext(
            order,
            net,
            control_plane=control_plane,
            post=post or ReportQueue(control_plane, WorkerHandle(worker_id, lambda _: None)),
            tools=tools,
            clock=clock,
            sleep=sleep,
            worker_id=worker_id,
            mask=mask or Mask(),
            lend=lend,
            leases=leases,
            output=output,
        )
        self._around = PipelineScope(
            execution_id=order.execution_id,
            args=order.args,
            workload=order.workload,
            ctx=order.ctx,
            token=order.token,
            results=order.results,
            load=control_plane.load,
            vars=order.vars if net.dialect == V2_EVAL else None,
            vars_in_ctx=net.dialect == V2_CASE,
            known=known_names(net),
        )

    @property
    def begun(self) -> Begun:
        """What its tools have begun elsewhere, and not seen the end of."""
        return self._place.unwanted

    async def run(self) -> Report:
        """Run it to its end; the report of that end is the caller's to hand in."""
        iterations = self._order.iterations
        if iterations is None:
            return await self._pipeline()
        return await RangeRun(self._place, iterations, self._around, self._collections).to_end()

    def _run(self) -> PipelineRun:
        side_run, interrupted = self._order.side_run, self._order.interrupted
        if side_run is not None:
            return SideRunPipeline(
                self._place, side_run_surroundings(side_run, self._around), side_run, interrupted=interrupted
            )
        return run_of(self._place, self._around, interrupted=interrupted)

    async def _pipeline(self) -> Report:
        pipeline = self._run()
        try:
            end = await pipeline.to_end(self._order.position)
        except Expired as expired:
            end = self._place.writer.ended(StepFailed(error=expired.error))
        if isinstance(end, StepDone) and self._order.side_run is None:
            end = self._with_output(end)
        self._place.journal.add(end)
        return self._place.journal.report()

    def _with_output(self, end: StepDone) -> StepDone:
        """The step's own result as its author wants it kept. It is masked by now, and so is what is stored."""
        place = self._place
        result = kept_as_wanted(
            end.result, place.step.result, place.control_plane.load, place.writer.keep, self._max_payload_bytes
        )
        return end if result is end.result else StepDone(result=result)
