"""Executions: the public face of the control plane. Load, decide, commit, perform (docs/style.md §3).

Every request to an execution becomes a command, and a command is submitted here. A decision takes effect only after it
is committed: orders reach a worker, wake-ups are sent and watchers receive events afterwards, never before (SRV-05).
`commit` decides how commands share a transaction; `claiming` serves workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.base.errors import RefusedError
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.decisions import Control, Decisions, ready_order
from noetl.control.commit.group_commit import GroupCommit
from noetl.control.commit.loaded_executions import LoadedExecution
from noetl.control.commit.sharing import SharingPolicy
from noetl.control.secrets.release import SecretRelease
from noetl.engine.commands import CancelExecution, Command, Start
from noetl.engine.decision import Decision
from noetl.engine.execution import Execution
from noetl.engine.lifecycle import input_refusal
from noetl.engine.plan import Plan
from noetl.events.executions import RerunState, Starter
from noetl.events.orders import ReportResult
from noetl.net.net import Net
from noetl.store.contract import OrderRow, OrderState, Store, TakenError

__all__ = ["Control", "Executions", "StartGate"]


class StartGate(Protocol):
    """Limits how many executions begin."""

    async def admitted(self, start: Start) -> Start:
        """The start as it may begin now: unchanged, paused until there is room, or refused."""


class Executions:
    """The executions of this process. An embedded run drives those it has started or taken over, with their children.
    A server shares its store with other servers and drives every execution of it. Built by `assembly.assemble`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        policy: SharingPolicy,
        *,
        commit: GroupCommit,
        decisions: Decisions,
        admission: StartGate,
        secret_release: SecretRelease,
    ) -> None:
        self._store, self._clock, self.policy = store, clock, policy
        self._commit, self._decisions, self._loaded = commit, decisions, decisions.loaded
        self._admission, self._secret_release = admission, secret_release
        # Large results, read without waiting: deciding is synchronous.
        self.values = decisions.values

    # begin

    async def start(
        self,
        net: Net,
        *,
        execution_id: str,
        trace_id: str,
        payload: dict[str, Any],
        carried: RerunState | None = None,
        starter: Starter | None = None,
    ) -> None:
        """Begin an execution. Once this returns, the execution is durable and will be completed. With `carried` it
        begins at a later step, with the state that an earlier execution had there."""
        # Before the batch: looking up credentials may wait for another service.
        lacking = input_refusal(net, payload) if carried is None else None
        refused = lacking or await self._secret_release.refusal(net, payload)
        start = Start(
            net=net,
            execution_id=execution_id,
            trace_id=trace_id,
            payload=payload,
            refused=refused,
            carried=carried,
            starter=starter,
        )
        await self.begin(await self._admission.admitted(start))

    async def begin(self, start: Start) -> None:
        """Begin an admitted execution, or a child. Concurrent starts share a transaction (performance.md §2)."""

        async def begin_execution(batch: CommitBatch) -> None:
            loaded, now = self._loaded, self._clock.now()
            # Memory knows only some executions. For the others the store refuses the commit, since `after` is 0 and
            # the log exists. `loaded.begin` would replace the entry, and callers that wait for its end would hang.
            if start.execution_id in loaded:
                raise TakenError(f"execution {start.execution_id} exists already")
            new = loaded.begin(start.net, start.execution_id, start.trace_id, now, start.parent_execution_id)
            command = start.command(now, new.plan.net_hash, self._late_after(start))
            self._decisions.decide(batch, start.execution_id, command)
            crash_point("start.before_commit")

        await self._commit.run(begin_execution, gathers=True)
        crash_point("start.after_commit")

    def _late_after(self, start: Start) -> tuple[float, ...]:
        notices = self._decisions.notices
        return () if notices is None else notices.late_after(start.net, is_nested=start.parent_execution_id is not None)

    async def take_up(self, execution_id: str, *, is_gone: IsGone) -> None:
        """Take over an execution whose process has ended, with its children. `is_gone` says whether the owner of a
        lease has certainly ended."""

        async def take_over_execution(batch: CommitBatch) -> None:
            await take_over(self._decisions, self._store, self._clock, execution_id, is_gone)

        await self._commit.run(take_over_execution)

    # command

    async def submit(self, execution_id: str, command: Command) -> Decision:
        """Decide and store one command; returns the decision."""
        [decision] = await self._commit.submit([(execution_id, command)])
        return decision

    async def submit_all(self, commands: Sequence[tuple[str, Command]]) -> list[Decision]:
        """Decide commands in their order and store them in one transaction: all of them or none."""
        return await self._commit.submit(commands)

    async def control(self, execution_id: str, command: Control) -> ReportResult:
        """Pause, resume or cancel an execution and its children, in one transaction."""
        return (await self.submit(execution_id, command)).verdict

    async def cancel(self, execution_id: str, reason: str) -> ReportResult:
        return await self.control(execution_id, CancelExecution(at=self._clock.now(), reason=reason))

    # read

    async def execution(self, execution_id: str) -> LoadedExecution:
        """An execution with its plan, as of now. It may be ahead of the log by the commit that is under way."""
        if self.policy.is_memory_current and execution_id in self._loaded and not self._loaded.is_stale(execution_id):
            return self._loaded[execution_id]

        # Through the group commit, since between two batches nothing in memory is ahead of the log.
        async def loaded(batch: CommitBatch) -> LoadedExecution:
            return await self._decisions.load(execution_id)

        return await self._commit.run(loaded)

    async def ended_execution(self, execution_id: str) -> Execution:
        """Wait for the end of an execution and return it."""
        # Loaded again after the wait: if another server ended it, memory holds a new object by then.
        await (await self.execution(execution_id)).ended.wait_counted()
        return (await self.execution(execution_id)).execution

    async def is_known(self, execution_id: str) -> bool:
        """Whether the store has this execution."""
        return await self._store.execution(execution_id) is not None

    async def plan(self, net_hash: str) -> Plan:
        """The net with this hash, prepared for deciding."""
        return await self._loaded.plans.get(net_hash)

    async def net(self, net_hash: str) -> Net:
        return (await self.plan(net_hash)).net

    def drives(self, execution_id: str) -> bool:
        """Whether the execution is in the memory of this process."""
        return execution_id in self._loaded

    def open_children(self) -> list[str]:
        """The nested executions that are still running here."""
        executions = (self._loaded[execution_id].execution for execution_id in self._loaded)
        return [e.execution_id for e in executions if e.is_open and e.origin.parent_execution_id]

    def release(self, execution_id: str) -> None:
        """Remove a finished execution from memory."""
        self._loaded.drop(execution_id)

    # follow what others do

    @property
    def may_be_moved_by_others(self) -> bool:
        """Whether another process has moved an execution of this one, or is likely to. Likely: the execution is paused,
        or waits for a message or a person, and a `noetl` command on the same store may record the answer."""
        executions = (self._loaded[execution_id].execution for execution_id in self._loaded)
        return self._decisions.is_contended or any(
            e.holds or (e.is_open and (e.open_waits.waits or e.open_waits.listeners)) for e in executions
        )

    async def catch_up(self) -> None:
        """Load what another process has recorded: a pause, resumption, cancellation or takeover. A server does so only
        for executions that a caller waits for; every command on another execution compares it with the log anyway."""

        async def catch_up_in_batch(batch: CommitBatch) -> None:
            loaded, is_awaited = self._loaded, self._decisions.effects.is_resumption_awaited
            await self._decisions.catch_up(
                [
                    execution_id
                    for execution_id in loaded
                    if loaded[execution_id].execution.is_open
                    and (self.policy.follows_all or is_awaited(execution_id) or loaded[execution_id].ended.waiting)
                ]
            )

        await self._commit.run(catch_up_in_batch)

    async def close(self) -> None:
        """Return once nothing is under way."""
        await self._commit.wait_idle()
        self.values.close()


# Takeover: an embedded run continues an execution whose process has ended, with its children (SRV-12).
# A server takes over nothing: it finds ready orders and expired leases in the store (`background/lost_work.py`).
IsGone = Callable[[str], bool]


async def take_over(decisions: Decisions, store: Store, clock: Clock, execution_id: str, is_gone: IsGone) -> None:
    """Load an execution and offer its open orders again; runs inside a batch. `is_gone` says whether the owner of a
    lease has certainly ended. RefusedError when an owner may still be alive."""
    execution = (await decisions.load(execution_id)).execution
    decisions.effects.note_taken_up(execution)
    if execution.is_open:
        open_orders = await store.orders(execution_id)
        # All orders are checked before any is offered: a refusal half-way would leave orders on offer here that the
        # other process still runs.
        for order in open_orders:
            _refuse_if_held(order, clock.now(), is_gone)
        for order in open_orders:
            # The store still shows these leases as valid. The epoch limits the exception to those of the dead process.
            decisions.abandoned.add((order.order_id, order.lease_epoch))
            decisions.ready.add(ready_order(order))
        decisions.effects.notify_workers()
    # Also for a finished execution: children that it did not wait for may still be open.
    for child in await store.children(execution_id):
        if child.finished_at is None:
            await take_over(decisions, store, clock, child.execution_id, is_gone)


def _refuse_if_held(order: OrderRow, now: float, is_gone: IsGone) -> None:
    owner = order.lease_owner or ""
    left_s = (order.lease_until or 0.0) - now
    if order.state is OrderState.LEASED and left_s > 0 and not is_gone(owner):
        raise RefusedError(f"execution {order.execution_id} is being run by {owner}; its lease ends in {left_s:.0f} s")
