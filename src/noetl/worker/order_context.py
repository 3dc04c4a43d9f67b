"""What all pipelines of one order share. Iterations of a range have one journal, one secret store, one lease. Also
the time after which its step run is stopped."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.redaction import Mask
from noetl.engine.pipeline.payloads import max_payload_bytes
from noetl.engine.pipeline.preparation import NOOP, Prepared, plain_inputs
from noetl.engine.pipeline.progress import MAX_TASK_RUNS
from noetl.engine.v2_case.port import has_rules
from noetl.engine.waits.times import expired
from noetl.events.orders import Order, ReportResult
from noetl.events.outcomes import Error, Reference
from noetl.net.names import known_names
from noetl.net.net import Net, Transition, credential_input, submitting_task, tasks_of
from noetl.net.secret_reads import Reads, index_of, keychain_reads
from noetl.net.task import Task
from noetl.templates.values import Authored
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.calls import Lend, keep_slot
from noetl.worker.cancelled_orders import Begun
from noetl.worker.control_plane import ControlPlane
from noetl.worker.leases import HeldLeases
from noetl.worker.live_output import OutputSender
from noetl.worker.report_queue import Journal, LeaseLost, ReportQueue
from noetl.worker.report_writer import ReportWriter
from noetl.worker.secret_store import SecretStore

_NO_TEMPLATES = Prepared()


class WorkerServices(msgspec.Struct, frozen=True, kw_only=True):
    """What all orders of a worker share, made once."""

    control_plane: ControlPlane
    post: ReportQueue
    collections: Collections
    tools: Registry
    clock: Clock
    sleep: Sleep
    worker_id: str
    lend: Lend = keep_slot  # a task that only waits lends its slot
    leases: HeldLeases | None = None
    output: OutputSender | None = None  # takes what tasks print, where somebody can look


_LOOP = re.compile(rb"\{%[-+]?\s*for\b")


class StepFacts:
    """What a worker asks of a step for every order of it, found once for each net."""

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
        """What the task reads of the keychain."""
        reads = self._reads.get(id(task))
        if reads is None:
            reads = self._reads[id(task)] = keychain_reads(task)
        return reads

    def has_loops(self, task: Task) -> bool:
        """Whether a template of the task has a loop: it may take a quarter of a second until its budget ends it, and
        everybody else in this process would wait for it (P8)."""
        found = self._loops.get(id(task))
        if found is None:
            written = msgspec.json.encode((task.inputs.data, task.spec.data))
            found = self._loops[id(task)] = _LOOP.search(written) is not None
        return found

    def plain_inputs(self, task: Task, tools: Registry) -> Prepared | None:
        """The inputs of a task whose author wrote no template, as they are. ToolError as from `tools`."""
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
    """`unwanted` is what tools have begun elsewhere, and not seen the end of."""

    def __init__(self, order: Order, net: Net, services: WorkerServices, mask: Mask) -> None:
        self.order, self.net, self.mask, self.collections = order, net, mask, services.collections
        self.worker_id, self.lend, self.output = services.worker_id, services.lend, services.output
        self.control_plane, self.tools = services.control_plane, services.tools
        self.clock, self.sleep = services.clock, services.sleep
        self.facts = facts_of(net, order.step)
        self.step = self.facts.step
        self.writer = ReportWriter(mask, self.facts.max_payload_bytes, services.control_plane, order.execution_id)
        self.journal = Journal(order, services.clock, services.worker_id)
        self.unwanted: Begun = {}
        self._post, self._leases = services.post, services.leases
        # A side run has tasks of its own, and its task may be made for this order alone.
        self._tasks = self.facts.tasks if order.side_run is None else _with_following(part_of(self.step, order))

    @cached_property
    def safe(self) -> SecretStore:
        """Its secrets; most orders have none."""
        return SecretStore(self.order, self.net, self.control_plane, self.mask, self.clock, self.worker_id)

    @property
    def steps(self) -> frozenset[str]:
        return index_of(self.net).names

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


# Collections of loops that are stored apart: read once by a worker, not once per range (reliability.md §3.5).
_KEPT = 4


class Collections:
    """The last few, by their content."""

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


# Side runs at a worker: which tasks one has (SAGA-01, ADV-01, TOOL-12).
PLAYBOOK = "playbook"
COMPENSATES = "compensates"  # the input of a playbook task that undoes an execution instead of starting one


def part_of(step: Transition, order: Order) -> tuple[Task, ...]:
    """The tasks of an order: the step's pipeline, or those of its side run."""
    side_run = order.side_run
    if side_run is None:
        return step.tasks
    if side_run.child is not None:
        return (Task(name=PLAYBOOK, kind=PLAYBOOK, inputs=Authored({COMPENSATES: side_run.child})),)
    if side_run.job_id is not None:
        return (_cancelling(step, side_run.job_id),)
    part, _, index = side_run.part.partition("/")
    match part:
        case "compensation":
            assert step.compensation is not None
            return step.compensation.tasks
        case "handlers":
            assert step.handlers is not None
            return step.handlers.handlers[int(index)].tasks
        case _:
            return tuple(_alone(task) for task in tasks_of(step) if task.name == order.position.task)[:1]


def _cancelling(step: Transition, job_id: str) -> Task:
    """Cancels a job of the step, with the credential that it was submitted with."""
    task = submitting_task(step)
    assert task is not None
    inputs = Authored(credential_input(task))
    return Task(name=task.kind, kind=task.kind, inputs=inputs, verbatim={"op": "cancel", "job_id": job_id})


def _alone(task: Task) -> Task:
    """A task that nobody waits for: its policy has judged that it was accepted (TOOL-12)."""
    spec = task.spec.data if isinstance(task.spec.data, dict) else {}
    waited_for = Authored({key: value for key, value in spec.items() if key != "async"})
    return msgspec.structs.replace(task, policy=None, repeat=(), spec=waited_for)


# Lifetime: a step run that takes too long is stopped where it stands (WRK-07).
#
# Only waiting and running tools are cut short, never a report on its way.


class Expired(Exception):  # noqa: N818  it is no error of ours: the step run is over
    """The step run ends here, with this error."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.error = error


@asynccontextmanager
async def alive(expiries: Mapping[str, float], now: float) -> AsyncIterator[None]:
    """Run the body until the first of `expiries` (kind -> moment); past it, `Expired`. The earliest wins (C-30)."""
    if not expiries:
        yield
        return
    kind, moment = min(expiries.items(), key=lambda item: item[1])
    error = expired(kind)
    try:
        async with asyncio.timeout(max(0.0, moment - now)) as clock:
            yield
    except TimeoutError:
        if clock.expired():
            raise Expired(error) from None
        raise
