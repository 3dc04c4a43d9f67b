"""The context of one order, shared by all its pipelines. Iterations of a range have one journal, one secret store, one
lease. Also the expiry of its step run, and calls of nested playbooks: they go to the control plane under the order's
lease, and its slot is lent meanwhile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import ToolError
from noetl.base.redaction import Mask
from noetl.engine.pipeline.payloads import max_payload_bytes
from noetl.engine.pipeline.preparation import NOOP, Prepared, plain_inputs
from noetl.engine.pipeline.progress import MAX_TASK_RUNS
from noetl.engine.v2_case.port import has_rules
from noetl.engine.waits.times import expiry_error
from noetl.events.orders import Order, PlaybookCall, PlaybookCallResult, ReportResult
from noetl.events.outcomes import Error, Reference
from noetl.net.names import known_names
from noetl.net.net import Net, Transition, submitting_task, tasks_of
from noetl.net.secret_reads import Reads, index_of, keychain_reads
from noetl.net.task import Task, credential_input
from noetl.templates.values import Authored
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.control_plane import Begun, ControlPlane
from noetl.worker.leases import HeldLeases
from noetl.worker.live_output import OutputSender
from noetl.worker.reports import Journal, LeaseLost, ReportQueue, ReportWriter
from noetl.worker.secret_store import SecretStore

Lend = Callable[[], AbstractAsyncContextManager[None]]  # while it is entered, another order uses the slot


def keep_slot() -> AbstractAsyncContextManager[None]:
    """The `Lend` of a worker that has no slots to lend."""
    return nullcontext()


class TaskCalls:
    """The nested playbooks of one task run (`tools.contract.Playbooks`)."""

    __slots__ = ("_called", "_context", "_task_run_id")

    def __init__(self, context: OrderContext, task_run_id: str) -> None:
        self._context, self._task_run_id = context, task_run_id
        # The last call, for `give_up`: it must name the same lease and task run.
        self._called: PlaybookCall | None = None

    async def call(
        self, path: str, *, version: str | None, payload: dict[str, Any], return_step: str | None, wait: bool
    ) -> PlaybookCallResult:
        """Start the child, or find the existing one, and wait for its end if `wait`."""
        if self._context.writer.holds_secret([path, version, payload]):  # a payload is recorded (KEY-06)
            raise ToolError(
                "playbook.failed",
                "args hold a secret, and the arguments of a nested playbook are recorded: "
                "name the secret in the keychain of that playbook, or look it up there with a secrets task",
                child_status="refused",
            )
        return await self._ask(path=path, version=version, payload=payload, return_step=return_step, wait=wait)

    async def compensate(self, execution_id: str) -> PlaybookCallResult:
        """Run the compensations that a child had registered, in an execution that is itself a child of this task
        run."""
        return await self._ask(path="", compensates=execution_id)

    async def _ask(self, **wanted: Any) -> PlaybookCallResult:
        """Call the control plane under the order's lease. The slot is lent while this waits."""
        context, order = self._context, self._context.order
        await context.flush()  # the server checks which task the order is at before it starts a child
        self._called = call = PlaybookCall(
            execution_id=order.execution_id,
            step_run_id=order.step_run_id,
            order_id=order.order_id,
            worker_id=context.worker_id,
            lease_epoch=order.lease_epoch,
            task_run_id=self._task_run_id,
            **wanted,
        )
        async with context.lend() if call.wait else keep_slot():
            return await context.control_plane.call(call)

    async def give_up(self, reason: str) -> None:
        """Cancel the child, since its task no longer waits for it."""
        if self._called is not None:
            await self._context.control_plane.give_up(self._called, reason)


_NO_TEMPLATES = Prepared()


class WorkerServices(msgspec.Struct, frozen=True, kw_only=True):
    """Services that all orders of a worker share."""

    control_plane: ControlPlane
    reports: ReportQueue
    collections: Collections
    tools: Registry
    clock: Clock
    sleep: Sleep
    worker_id: str
    lend: Lend = keep_slot  # a task that only waits lends its slot
    leases: HeldLeases | None = None
    output: OutputSender | None = None  # receives what tasks print; None if live output is off


_LOOP = re.compile(rb"\{%[-+]?\s*for\b")


class StepFacts:
    """Facts about a step that every order of it needs, computed once for each net."""

    def __init__(self, net: Net, name: str) -> None:
        self.step = index_of(net).steps[name]
        self.has_rules = has_rules(self.step)
        self.tasks = _with_following(self.step.tasks)
        self.only_noop = all(task.kind == NOOP for task in tasks_of(self.step))
        self.max_task_runs = int(net.executor.limits.get("max_task_runs", MAX_TASK_RUNS))
        self.max_payload_bytes = max_payload_bytes(net)
        self.known_names = known_names(net)
        # By the id of a task, which lives as long as the net.
        self._reads: dict[int, Reads] = {}
        self._plain: dict[int, Prepared | None] = {}
        self._loops: dict[int, bool] = {}

    def keychain_reads(self, task: Task) -> Reads:
        """The keychain entries that the task reads."""
        reads = self._reads.get(id(task))
        if reads is None:
            reads = self._reads[id(task)] = keychain_reads(task)
        return reads

    def has_loops(self, task: Task) -> bool:
        """Whether a template of the task has a loop. Such a template may run for a quarter of a second until its budget
        ends it, and would block the event loop meanwhile (P8)."""
        found = self._loops.get(id(task))
        if found is None:
            written = msgspec.json.encode((task.inputs.data, task.spec.data))
            found = self._loops[id(task)] = _LOOP.search(written) is not None
        return found

    def plain_inputs(self, task: Task, tools: Registry) -> Prepared | None:
        """The inputs of a task without templates, unchanged; None if it has any. Raises ToolError as `tools` does."""
        plain = self._plain.get(id(task), _NO_TEMPLATES)
        if plain is _NO_TEMPLATES:
            plain = self._plain[id(task)] = plain_inputs(task, tools.bound_inputs(task.kind))
        return plain


def facts_of(net: Net, step: str) -> StepFacts:
    known = index_of(net).facts
    found: StepFacts | None = known.get(step)
    if found is None:
        found = known[step] = StepFacts(net, step)
    return found


class OrderContext:
    """`cleanups` are functions that end what tools have begun elsewhere, by names that the tools chose."""

    def __init__(self, order: Order, net: Net, services: WorkerServices, mask: Mask) -> None:
        self.order, self.net, self.mask, self.collections = order, net, mask, services.collections
        self.worker_id, self.lend, self.output = services.worker_id, services.lend, services.output
        self.control_plane, self.tools = services.control_plane, services.tools
        self.clock, self.sleep = services.clock, services.sleep
        self.facts = facts_of(net, order.step)
        self.step = self.facts.step
        self.writer = ReportWriter(mask, self.facts.max_payload_bytes, services.control_plane, order.execution_id)
        self.journal = Journal(order, services.clock, services.worker_id)
        self.cleanups: Begun = {}
        self._reports, self._leases = services.reports, services.leases
        # A side run has its own tasks, and a task may be made for this order alone.
        self._tasks = self.facts.tasks if order.side_run is None else _with_following(order_tasks(self.step, order))

    @cached_property
    def secrets(self) -> SecretStore:
        """The secrets of the order, made on first use: most orders read none."""
        return SecretStore(self.order, self.net, self.control_plane, self.mask, self.clock, self.worker_id)

    @property
    def steps(self) -> frozenset[str]:
        return index_of(self.net).names

    def task(self, name: str) -> tuple[Task, str | None]:
        """A task of the pipeline, and the name of the next one."""
        return self._tasks[name]

    async def until_resumed(self) -> None:
        """Return once the execution is not paused: until then no task begins (SRV-07). The slot is lent meanwhile."""
        while self.journal.paused:
            async with self.lend() if self.order.iterations is None else keep_slot():
                await self.control_plane.resumed(self.order.execution_id)
            self.journal.note_paused(False)

    async def confirm_lease(self) -> None:
        """Return if this worker holds the order. The lease of a worker that was frozen or disconnected may have
        expired: it asks the server before it begins a task. Raises LeaseLost if another worker has the order."""
        leases, order_id, epoch = self._leases, self.order.order_id, self.order.lease_epoch
        while leases is not None and leases.is_over(order_id, epoch):
            asked_at = leases.now()
            ttls = {order_id: self.order.terms.ttl_s}
            if leases.is_replaced(order_id, epoch) or order_id in await self.control_plane.renew(
                self.worker_id, {order_id: epoch}, ttls
            ):
                raise LeaseLost(ReportResult.FENCED.value)
            leases.renewed({order_id: epoch}, asked_at)  # checked again in the loop: the answer may have come too late

    @property
    def is_full(self) -> bool:
        """Whether the journal has as many unsent entries as it may have."""
        return self.journal.pending >= self._reports.most_pending

    async def flush(self) -> None:
        """Return once all entries so far are stored. Raises LeaseLost if this worker no longer holds the order."""
        await self._reports.flush(self.journal)


def _with_following(tasks: tuple[Task, ...]) -> dict[str, tuple[Task, str | None]]:
    following = {task.name: after.name for task, after in pairwise(tasks)}
    return {task.name: (task, following.get(task.name)) for task in tasks}


# Large collections of loops: a worker reads each once, not once per range (reliability.md §3.5).
_KEPT = 4


class Collections:
    """A cache of the last few collections, by content hash."""

    def __init__(self, load: Callable[[Reference], Any]) -> None:
        self._load = load
        self._found: dict[str, list[Any]] = {}

    def get(self, reference: Reference) -> list[Any]:
        found = self._found.get(reference.checksum)
        if found is None:
            while len(self._found) >= _KEPT:
                del self._found[next(iter(self._found))]
            found = self._found[reference.checksum] = self._load(reference)
        return found


# The tasks of side runs (SAGA-01, ADV-01, TOOL-12).
PLAYBOOK = "playbook"
COMPENSATES = "compensates"  # the input of a playbook task that compensates an execution instead of starting one


def order_tasks(step: Transition, order: Order) -> tuple[Task, ...]:
    """The tasks of an order: the step's pipeline, or those of its side run."""
    side_run = order.side_run
    if side_run is None:
        return step.tasks
    if side_run.child is not None:
        return (Task(name=PLAYBOOK, kind=PLAYBOOK, inputs=Authored({COMPENSATES: side_run.child})),)
    if side_run.job_id is not None:
        return (_job_cancellation(step, side_run.job_id),)
    part, _, index = side_run.part.partition("/")
    match part:
        case "compensation":
            assert step.compensation is not None
            return step.compensation.tasks
        case "handlers":
            assert step.handlers is not None
            return step.handlers.handlers[int(index)].tasks
        case _:
            return tuple(_async_task(task) for task in tasks_of(step) if task.name == order.position.task)[:1]


def _job_cancellation(step: Transition, job_id: str) -> Task:
    """A task that cancels a job of the step, with the credential that it was submitted with."""
    task = submitting_task(step)
    assert task is not None
    inputs = Authored(credential_input(task))
    return Task(name=task.kind, kind=task.kind, inputs=inputs, verbatim={"op": "cancel", "job_id": job_id})


def _async_task(task: Task) -> Task:
    """An asynchronous task, without its policy: that was applied when the task was accepted (TOOL-12)."""
    spec = task.spec.data if isinstance(task.spec.data, dict) else {}
    waited_for = Authored({key: value for key, value in spec.items() if key != "async"})
    return msgspec.structs.replace(task, policy=None, repeat=(), spec=waited_for)


# Lifetime: a step run that takes too long is stopped (WRK-07).
#
# Only waits and tools are cancelled, never a report that is being sent.


class Expired(Exception):  # noqa: N818  not an error of the worker: the step run has expired
    """The step run ends here, with this error."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.error = error


@asynccontextmanager
async def alive(expiries: Mapping[str, float], now: float) -> AsyncIterator[None]:
    """Run the body until the earliest of `expiries` (kind -> time); then raise `Expired` (C-30)."""
    if not expiries:
        yield
        return
    kind, moment = min(expiries.items(), key=lambda item: item[1])
    error = expiry_error(kind)
    try:
        async with asyncio.timeout(max(0.0, moment - now)) as clock:
            yield
    except TimeoutError:
        if clock.expired():
            raise Expired(error) from None
        raise
