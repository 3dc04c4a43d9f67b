"""Runner: takes one order to its end, a step run or a range of iterations."""

from __future__ import annotations

from noetl.clock import Clock
from noetl.net.names import known_names
from noetl.net.net import Net
from noetl.pipeline.enclosing import errand_surroundings
from noetl.pipeline.fields import kept_as_wanted
from noetl.pipeline.limits import max_payload_bytes
from noetl.pipeline.surroundings import Surroundings
from noetl.records.orders import Order, Report
from noetl.records.steps import StepDone, StepFailed
from noetl.redaction import Mask
from noetl.templates.scopes import V2_CASE, V2_EVAL
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.calls import Lend, keep_slot
from noetl.worker.case_run import run_of
from noetl.worker.collections import Collections
from noetl.worker.errand_run import ErrandRun
from noetl.worker.iterations import RangeRun
from noetl.worker.leases import Leases
from noetl.worker.lifetime import Expired
from noetl.worker.office import Office
from noetl.worker.pipeline_run import PipelineRun
from noetl.worker.post import Post
from noetl.worker.unwanted import Begun
from noetl.worker.workplace import Workplace


class Runner:
    """Runs one order. `LeaseLost` comes out of `run` when the order turns out to be another worker's."""

    def __init__(
        self,
        order: Order,
        net: Net,
        *,
        office: Office,
        tools: Registry,
        clock: Clock,
        sleep: Sleep,
        worker_id: str,
        post: Post | None = None,
        mask: Mask | None = None,
        collections: Collections | None = None,
        lend: Lend = keep_slot,
        leases: Leases | None = None,
    ) -> None:
        self._order, self._max_payload_bytes = order, max_payload_bytes(net)
        self._collections = collections or Collections(office.load)
        self._place = Workplace(
            order,
            net,
            office=office,
            post=post or Post(office, worker_id),
            tools=tools,
            clock=clock,
            sleep=sleep,
            worker_id=worker_id,
            mask=mask or Mask(),
            lend=lend,
            leases=leases,
        )
        self._around = Surroundings(
            execution_id=order.execution_id,
            args=order.args,
            workload=order.workload,
            ctx=order.ctx,
            token=order.token,
            results=order.results,
            load=office.load,
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
        errand, interrupted = self._order.errand, self._order.interrupted
        if errand is not None:
            return ErrandRun(self._place, errand_surroundings(errand, self._around), errand, interrupted=interrupted)
        return run_of(self._place, self._around, interrupted=interrupted)

    async def _pipeline(self) -> Report:
        pipeline = self._run()
        try:
            end = await pipeline.to_end(self._order.position)
        except Expired as expired:
            end = self._place.egress.ended(StepFailed(error=expired.error))
        if isinstance(end, StepDone) and self._order.errand is None:
            end = self._kept(end)
        self._place.journal.add(end)
        return self._place.journal.report()

    def _kept(self, end: StepDone) -> StepDone:
        """The step's own result as its author wants it kept. It is masked by now, and so is what is stored."""
        place = self._place
        result = kept_as_wanted(
            end.result, place.step.result, place.office.load, place.egress.keep, self._max_payload_bytes
        )
        return end if result is end.result else StepDone(result=result)
