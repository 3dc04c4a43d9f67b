"""What all pipelines of one order share. Iterations of a range have one journal, one safe, one lease."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

from noetl.base.clock import Clock
from noetl.base.redaction import Mask
from noetl.engine.pipeline.limits import max_payload_bytes
from noetl.engine.pipeline.noop import KIND as NOOP
from noetl.engine.pipeline.progress import MAX_TASK_RUNS
from noetl.events.orders import Order, ReportResult
from noetl.net.net import Net
from noetl.net.secret_reads import index_of
from noetl.net.task import Task
from noetl.net.tasks import tasks_of
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.calls import Lend, keep_slot
from noetl.worker.cancelled_orders import Begun
from noetl.worker.control_plane import ControlPlane
from noetl.worker.journal import Journal, LeaseLost
from noetl.worker.leases import HeldLeases
from noetl.worker.live_output import OutputSender
from noetl.worker.report_queue import ReportQueue
from noetl.worker.report_writer import ReportWriter
from noetl.worker.secret_store import SecretStore
from noetl.worker.side_runs import part_of


class OrderContext:
    def __init__(
        self,
        order: Order,
        net: Net,
        *,
        control_plane: ControlPlane,
        post: ReportQueue,
        tools: Registry,
        clock: Clock,
        sleep: Sleep,
        worker_id: str,
        mask: Mask,
        lend: Lend = keep_slot,
        leases: HeldLeases | None = None,
        output: OutputSender | None = None,
    ) -> None:
        self.order, self.net, self.worker_id, self.lend = order, net, worker_id, lend
        self.output, self.mask = output, mask
        self.control_plane, self.tools, self.clock, self.sleep = control_plane, tools, clock, sleep
        index = index_of(net)
        self.step = index.steps[order.step]
        self.max_task_runs = int(net.executor.limits.get("max_task_runs", MAX_TASK_RUNS))
        self.writer = ReportWriter(
            mask, max_payload_bytes(net), lambda value: control_plane.keep(value, order.execution_id)
        )
        self.safe = SecretStore(order, net, control_plane, mask, clock=clock, worker_id=worker_id)
        self.journal = Journal(order, clock, worker_id)
        self.steps = index.names
        self.unwanted: Begun = {}
        self._post, self._leases = post, leases
        self._tasks = _with_following(part_of(self.step, order))

    @cached_property
    def only_noop(self) -> bool:
        """Whether no task of the step does anything."""
        return all(task.kind == NOOP for task in tasks_of(self.step))

    def task(self, name: str) -> tuple[Task, str | None]:
        """A task of the pipeline, and the one that follows it."""
        return self._tasks[name]

    async def until_resumed(self) -> None:
        """While the execution is paused no further task begins (SRV-07). One that only waits lends its slot."""
        while self.journal.paused:
            async with self.lend() if self.order.iterations is None else keep_slot():
                await self.control_plane.resumed(self.order.execution_id)
            self.journal.note_paused(False)

    async def confirm_lease(self) -> None:
        """Return while the order is ours. A worker that was frozen, or cut off, may hold a lease that has run out: it
        asks the server before it begins anything under it. LeaseLost if another worker has the order."""
        leases, order_id, epoch = self._leases, self.order.order_id, self.order.lease_epoch
        while leases is not None and leases.is_over(order_id, epoch):
            asked_at = leases.now()
            ttls = {order_id: self.order.terms.ttl_s}
            if leases.is_replaced(order_id, epoch) or order_id in await self.control_plane.renew(
                self.worker_id, {order_id: epoch}, ttls
            ):
                raise LeaseLost(ReportResult.FENCED.value)
            leases.renewed({order_id: epoch}, asked_at)  # and once more: the answer may have come too late

    @property
    def is_full(self) -> bool:
        """Whether as much is written as may wait."""
        return self.journal.pending >= self._post.most_pending

    async def flush(self) -> None:
        """Return once everything written so far is durable. LeaseLost if the order is no longer ours."""
        await self._post.flush(self.journal)


def _with_following(tasks: tuple[Task, ...]) -> dict[str, tuple[Task, str | None]]:
    following = {task.name: after.name for task, after in pairwise(tasks)}
    return {task.name: (task, following.get(task.name)) for task in tasks}
