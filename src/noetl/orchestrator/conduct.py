"""Conduct: load, decide, commit, perform. The engine's shell, where order is the whole point (STYLE §2).

A decision takes effect only after it is committed: orders reach a worker, doorbells ring and watchers hear of events
afterwards, never before (SRV-05). If a commit fails, what was decided is forgotten and the log is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from noetl.clock import Clock
from noetl.dispatch.contract import Dispatch
from noetl.engine.commands import (
    CancelExecution,
    ClaimOrder,
    Command,
    PauseExecution,
    RecordReport,
    ResumeExecution,
)
from noetl.engine.deciding import advance
from noetl.engine.decision import Decision, DispatchStep
from noetl.engine.execution import Execution
from noetl.errors import RefusedError
from noetl.net.net import Net
from noetl.orchestrator.batch import Batch
from noetl.orchestrator.calls import Calls, Library, NoLibrary
from noetl.orchestrator.hot import Hot, HotExecutions
from noetl.orchestrator.orders import LEASE_TTL_S, order_for
from noetl.orchestrator.ready import Ready, ReadyOrders
from noetl.orchestrator.secret_desk import SecretDesk
from noetl.orchestrator.starts import Start, Starts
from noetl.records.calls import Call, Called
from noetl.records.control import PlaybookCancelled, PlaybookPaused, PlaybookResumed
from noetl.records.envelope import Event
from noetl.records.events import StepFailed, TokenDropped
from noetl.records.materials import Ask, Material
from noetl.records.orders import Answer, Order, Turn, Verdict
from noetl.records.references import Reference
from noetl.store.contract import ConflictError, OrderRow, OrderState, Results, Store

Watch = Callable[[Sequence[Event]], None]
Control = PauseExecution | ResumeExecution | CancelExecution
_T = TypeVar("_T")
_TRIES = 5


class Conductor:
    """Drives the executions it has started or taken up, with their children, and no others. It is the office its
    worker knows. `stop`, when it is set, hears of orders that nobody wants any more."""

    def __init__(
        self,
        store: Store,
        results: Results,
        dispatch: Dispatch,
        clock: Clock,
        *,
        watch: Watch | None = None,
        desk: SecretDesk | None = None,
        library: Library | None = None,
    ) -> None:
        self._store, self._results, self._dispatch, self._clock = store, results, dispatch, clock
        self._watch, self._desk = watch, desk or SecretDesk(None)
        self._hot = HotExecutions(store, results)
        self._ready = ReadyOrders()
        self._abandoned: set[tuple[str, int]] = set()  # orders found under a lease whose holder is gone
        self._resumptions: dict[str, asyncio.Event] = {}  # somebody waits for these executions to go on
        self._deciding = asyncio.Lock()
        self._starts = Starts(self._begin)
        self._calls = Calls(self, library or NoLibrary())
        self.stop: Callable[[Sequence[str]], None] | None = None
        self.is_contended = False  # somebody else has moved an execution of ours: its end may come from there

    async def start(self, net: Net, *, execution_id: str, trace_id: str, payload: dict[str, Any]) -> None:
        """Begin an execution; once this returns, it is durable and will be completed."""
        refused = await self._desk.refusal(net)
        await self.begin(Start(net=net, execution_id=execution_id, trace_id=trace_id, payload=payload, refused=refused))

    async def begin(self, start: Start) -> None:
        await self._starts.begin(start)

    async def _begin(self, starts: Sequence[Start]) -> None:
        """Begin these executions in one transaction."""

        async def decided(batch: Batch) -> None:
            for start in starts:
                now = self._clock.now()
                hot = self._hot.begin(start.net, start.execution_id, start.trace_id, now, start.parent_execution_id)
                self._decide(batch, start.execution_id, start.command(now, hot.plan.net_hash))

        await self._together(decided)

    async def refusal(self, net: Net) -> Any:
        """Why a request for `net` ends before it begins (KEY-02)."""
        return await self._desk.refusal(net)

    async def take_up(self, execution_id: str, *, is_gone: Callable[[str], bool]) -> None:
        """Go on with an execution whose process ended, and with its children. `is_gone` tells whether the owner of a
        lease has certainly ended."""
        async with self._deciding:
            await self._take_up(execution_id, is_gone)

    async def _take_up(self, execution_id: str, is_gone: Callable[[str], bool]) -> None:
        execution = (await self._load(execution_id)).execution
        if execution.is_open:
            open_orders = await self._store.orders(execution_id)
            for order in open_orders:
                self._refuse_if_held(order, is_gone)
            for order in open_orders:
                self._abandoned.add((order.order_id, order.lease_epoch))
                self._ready.add(_ready(execution, order))
            self._dispatch.ring(len(open_orders))
        for child in await self._store.children(execution_id):
            if child.finished_at is None:
                await self._take_up(child.execution_id, is_gone)

    def _refuse_if_held(self, order: OrderRow, is_gone: Callable[[str], bool]) -> None:
        until, owner = order.lease_until or 0.0, order.lease_owner or ""
        left_s = until - self._clock.now()
        if order.state is OrderState.LEASED and left_s > 0 and not is_gone(owner):
            raise RefusedError(
                f"execution {order.execution_id} is being run by {owner}; its lease ends in {left_s:.0f} s"
            )

    async def ended(self, execution_id: str) -> Execution:
        """The execution, once it is over."""
        await (await self._load(execution_id)).ended.wait()
        return (await self._load(execution_id)).execution

    def release(self, execution_id: str) -> None:
        """Keep an execution that is over in memory no longer."""
        self._hot.drop(execution_id)

    def drives(self, execution_id: str) -> bool:
        return execution_id in self._hot

    @property
    def is_holding(self) -> bool:
        """Whether some execution here is paused, and waits for somebody outside."""
        return any(self._hot[one].execution.holds for one in self._hot)

    async def is_known(self, execution_id: str) -> bool:
        """Whether the store has this execution."""
        return await self._store.execution(execution_id) is not None

    def open_children(self) -> list[str]:
        """The nested executions that are still running here."""
        return [one for one in self._hot if (e := self._hot[one].execution).is_open and e.parent_execution_id]

    async def control(self, execution_id: str, command: Control) -> Verdict:
        """Pause, resume or cancel an execution and its children, in one transaction."""

        async def decided(batch: Batch) -> Verdict:
            await self._load(execution_id)
            return self._decide(batch, execution_id, command).verdict

        return await self._together(decided)

    async def cancel(self, execution_id: str, reason: str) -> Verdict:
        return await self.control(execution_id, CancelExecution(at=self._clock.now(), reason=reason))

    async def call(self, call: Call) -> Called:
        return await self._calls.call(call)

    async def give_up(self, call: Call, reason: str) -> None:
        await self._calls.give_up(call, reason)

    async def execution(self, execution_id: str) -> Hot:
        """An execution with its plan, as of now."""
        return await self._load(execution_id)

    # what a worker asks

    async def turn(self, turn: Turn) -> Answer:
        async def decided(batch: Batch) -> Answer:
            verdicts: list[Verdict] = []
            stopped: dict[str, tuple[tuple[int, ...], ...]] = {}
            for report in turn.reports:
                await self._load(report.execution_id)
                command = RecordReport(at=self._clock.now(), report=report)
                decision = self._decide(batch, report.execution_id, command)
                verdicts.append(decision.verdict)
                if decision.stopped:
                    stopped[report.order_id] = decision.stopped
            orders = tuple(await self._claim(turn, batch))
            paused = tuple(one.order_id for one in turn.reports if self._hot[one.execution_id].execution.paused)
            return Answer(verdicts=tuple(verdicts), orders=orders, stopped=stopped, paused=paused)

        return await self._together(decided)

    async def _claim(self, turn: Turn, batch: Batch) -> list[Order]:
        claimed: list[Order] = []
        while self._ready and len(claimed) < turn.capacity:
            ready = self._ready.take()
            hot = await self._load(ready.execution_id)
            if hot.execution.paused:
                self._ready.lay_aside(ready)  # nothing new is dispatched (SRV-07)
                continue
            command = ClaimOrder(
                at=self._clock.now(),
                order_id=ready.order_id,
                worker_id=turn.worker_id,
                seen_epoch=ready.seen_epoch,
            )
            if self._decide(batch, ready.execution_id, command).verdict is Verdict.ACCEPTED:
                claimed.append(order_for(hot.plan, hot.execution, ready.order_id))  # the scopes as of this moment
        return claimed

    async def resumed(self, execution_id: str) -> None:
        while (await self._load(execution_id)).execution.holds:
            await self._resumptions.setdefault(execution_id, asyncio.Event()).wait()

    def _tell_resumed(self, execution_id: str) -> None:
        if not self._hot[execution_id].execution.holds and (waiting := self._resumptions.pop(execution_id, None)):
            waiting.set()

    async def renew(self, worker_id: str, leases: dict[str, int]) -> frozenset[str]:
        until = self._clock.now() + LEASE_TTL_S
        lost = [
            order_id
            for order_id, epoch in leases.items()
            if not await self._store.renew(order_id, lease_epoch=epoch, lease_until=until)
        ]
        if lost:
            await self.catch_up()  # somebody else has moved its execution, if it is not over
        return frozenset(lost)

    async def catch_up(self) -> None:
        """Read again what another process has moved: paused, resumed, cancelled or taken over meanwhile."""
        async with self._deciding:
            for execution_id in self._hot:
                hot = self._hot[execution_id]
                if not hot.execution.is_open or not hot.committed:
                    continue
                row = await self._store.execution(execution_id)
                if row is not None and row.last_seq != hot.committed:
                    self._hot.doubt([execution_id])
                    await self._load(execution_id)

    async def net(self, net_hash: str) -> Net:
        return await self._hot.net(net_hash)

    async def secret(self, ask: Ask) -> Material:
        hot = await self._load(ask.execution_id)
        return await self._desk.answer(ask, hot.plan.net, hot.execution)

    def keep(self, value: Any) -> Reference:
        return self._results.put(value)

    def load(self, reference: Reference) -> Any:
        return self._results.load(reference)

    # the shell itself

    async def _together(self, decide: Callable[[Batch], Awaitable[_T]]) -> _T:
        """Decide something and store all of it in one transaction; again from the log, if others moved it meanwhile."""
        for _ in range(_TRIES):
            try:
                async with self._deciding:
                    for execution_id in self._hot.stale:
                        await self._load(execution_id)
                    batch = Batch()
                    try:
                        answer = await decide(batch)
                    except BaseException:
                        self._forget(batch)
                        raise
                    await self._commit(batch)
                    return answer
            except ConflictError as conflict:
                last, self.is_contended = conflict, True
        raise last

    async def _load(self, execution_id: str) -> Hot:
        """The execution as memory has it, else as the log tells it; then what it had offered is read again as well."""
        is_stale = execution_id in self._hot.stale
        hot = await self._hot.load(execution_id)
        if is_stale:
            for order in await self._store.orders(execution_id):
                if order.state is OrderState.READY or (order.order_id, order.lease_epoch) in self._abandoned:
                    self._ready.add(_ready(hot.execution, order))
            self._dispatch.ring(len(self._ready))
            self._tell_resumed(execution_id)
        return hot

    def _decide(self, batch: Batch, execution_id: str, command: Command) -> Decision:
        hot = self._hot[execution_id]
        decision = advance(hot.plan, hot.execution, command)
        batch.add(execution_id, command, decision)
        for effect in decision.effects:
            if isinstance(effect, DispatchStep):
                self._ready.add(Ready(execution_id, effect.order_id, priority=effect.priority))
        for event in decision.events:
            if isinstance(event.payload, _SHARED):
                self._share(batch, execution_id, event)
        return decision

    def _share(self, batch: Batch, execution_id: str, event: Event) -> None:
        """What happens to an execution, or to a step run that waits for a child, happens to the child (O-02, O-16)."""
        now, children = self._clock.now(), self._hot.children(execution_id)
        command: Control = CancelExecution(at=now, reason="its parent was cancelled")
        match event.payload:
            case PlaybookPaused():
                command = PauseExecution(at=now, reason="its parent was paused")
            case PlaybookResumed():
                command = ResumeExecution(at=now, reason="its parent was resumed")
                self._ready.offer_aside(execution_id)
            case TokenDropped() | StepFailed():
                children = self._calls.left_by(event.step_run_id)
                command = CancelExecution(at=now, reason="the step that waited for it has ended")
        for child in children:
            if child in self._hot:
                self._decide(batch, child, command)

    async def _commit(self, batch: Batch) -> None:
        """Store everything decided in one transaction, then perform what is owed."""
        try:
            commits = batch.commits(self._hot, self._clock.now())
            if commits:
                await self._store.commit(commits)
        except BaseException:
            self._forget(batch)
            raise
        for commit in commits:
            self._hot[commit.execution.execution_id].committed = commit.execution.last_seq
            self._tell_resumed(commit.execution.execution_id)
            if self._watch is not None:
                self._watch(commit.events)
        if self._ready:
            self._dispatch.ring(len(self._ready))
        if batch.stopped and self.stop is not None:
            self.stop(batch.stopped)
        for execution_id in batch.ended():
            self._hot[execution_id].ended.set()

    def _forget(self, batch: Batch) -> None:
        """Drop what was decided and not stored; the next use reads the log."""
        self._hot.doubt(batch.touched)
        self._ready.forget(batch.touched)


_SHARED = (PlaybookPaused, PlaybookResumed, PlaybookCancelled, TokenDropped, StepFailed)


def _ready(execution: Execution, order: OrderRow) -> Ready:
    run = execution.run_of(order.order_id)
    priority = execution.tokens[run.token_id].priority if run is not None else 0
    return Ready(order.execution_id, order.order_id, order.lease_epoch, priority)
