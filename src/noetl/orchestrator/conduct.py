"""Conduct: load, decide, commit, perform. The engine's shell, where order is the whole point (STYLE §2).

A decision takes effect only after it is committed: orders reach a worker, doorbells ring and watchers hear of events
afterwards, never before (SRV-05). If a commit fails, what was decided is forgotten and the log is read again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from noetl.clock import Clock
from noetl.dispatch.contract import Dispatch
from noetl.engine.commands import ClaimOrder, Command, RecordReport, StartExecution
from noetl.engine.deciding import advance
from noetl.engine.decision import Decision, DispatchStep, EndExecution
from noetl.engine.evolution import replayed
from noetl.engine.execution import Execution
from noetl.engine.plan import Plan
from noetl.errors import RefusedError
from noetl.net.encoding import from_json
from noetl.net.net import Net
from noetl.orchestrator.orders import LEASE_TTL_S, order_for, order_rows
from noetl.records.envelope import Event
from noetl.records.orders import Answer, Order, Turn, Verdict
from noetl.records.references import Reference
from noetl.store.contract import Commit, ConflictError, ExecutionRow, OrderRow, OrderState, Results, Store

Watch = Callable[[Sequence[Event]], None]
_TRIES = 5


class _Ready(msgspec.Struct, frozen=True):
    execution_id: str
    order_id: str
    seen_epoch: int = 0


class _Hot(msgspec.Struct):
    """An execution kept in memory. `committed` is the last `seq` the store has."""

    plan: Plan
    execution: Execution
    created_at: float
    committed: int
    ended: asyncio.Event


class Conductor:
    """Drives the executions it has started or taken up, and no others. It is the office its worker knows."""

    def __init__(
        self, store: Store, results: Results, dispatch: Dispatch, clock: Clock, *, watch: Watch | None = None
    ) -> None:
        self._store, self._results, self._dispatch, self._clock = store, results, dispatch, clock
        self._watch = watch
        self._hot: dict[str, _Hot] = {}
        self._plans: dict[str, Plan] = {}
        self._stale: set[str] = set()  # a commit failed: what memory holds is not what the log tells
        self._ready: deque[_Ready] = deque()
        self._deciding = asyncio.Lock()

    async def start(self, net: Net, *, execution_id: str, trace_id: str, payload: dict[str, Any]) -> None:
        """Begin an execution; once this returns, it is durable and will be completed."""
        now = self._clock.now()
        plan = self._plan(Plan(net, load=self._results.load))
        execution = Execution(execution_id=execution_id, trace_id=trace_id)
        self._hot[execution_id] = _Hot(plan, execution, now, 0, asyncio.Event())
        command = StartExecution(at=now, net_hash=plan.net_hash, payload=payload)
        async with self._deciding:
            await self._commit([(execution_id, self._decide(execution_id, command))])

    async def take_up(self, execution_id: str, *, is_gone: Callable[[str], bool]) -> None:
        """Go on with an execution whose process ended. `is_gone` tells whether the owner of a lease still lives."""
        async with self._deciding:
            hot = await self._load(execution_id)
            if not hot.execution.is_open:
                return
            open_orders = await self._store.orders(execution_id)
            for order in open_orders:
                self._refuse_if_held(order, is_gone)
            self._ready.extend(_Ready(execution_id, order.order_id, order.lease_epoch) for order in open_orders)
            self._dispatch.ring(len(open_orders))

    def _refuse_if_held(self, order: OrderRow, is_gone: Callable[[str], bool]) -> None:
        until, owner = order.lease_until or 0.0, order.lease_owner or ""
        left_s = until - self._clock.now()
        if order.state is OrderState.LEASED and left_s > 0 and not is_gone(owner):
            raise RefusedError(
                f"execution {order.execution_id} is being run by {owner}; its lease ends in {left_s:.0f} s"
            )

    async def ended(self, execution_id: str) -> Execution:
        """The execution, once it is over."""
        hot = self._hot[execution_id]
        await hot.ended.wait()
        return self._hot[execution_id].execution

    # what a worker asks

    async def turn(self, turn: Turn) -> Answer:
        for _ in range(_TRIES):
            try:
                async with self._deciding:
                    return await self._turn(turn)
            except ConflictError:
                continue  # somebody else moved one of them: what was decided is forgotten, decide again
        raise ConflictError("the executions of this turn are moved by others all the time")

    async def _turn(self, turn: Turn) -> Answer:
        for execution_id in list(self._stale):
            await self._load(execution_id)
        decisions: list[tuple[str, Decision]] = []
        verdicts: list[Verdict] = []
        for report in turn.reports:
            await self._load(report.execution_id)
            decision = self._decide(report.execution_id, RecordReport(at=self._clock.now(), report=report))
            decisions.append((report.execution_id, decision))
            verdicts.append(decision.verdict)
        claimed = await self._claim(turn, decisions)
        await self._commit(decisions)
        return Answer(verdicts=tuple(verdicts), orders=tuple(self._order(ready) for ready in claimed))

    async def _claim(self, turn: Turn, decisions: list[tuple[str, Decision]]) -> list[_Ready]:
        claimed: list[_Ready] = []
        while self._ready and len(claimed) < turn.capacity:
            ready = self._ready.popleft()
            await self._load(ready.execution_id)
            command = ClaimOrder(
                at=self._clock.now(),
                order_id=ready.order_id,
                worker_id=turn.worker_id,
                seen_epoch=ready.seen_epoch,
            )
            decision = self._decide(ready.execution_id, command)
            decisions.append((ready.execution_id, decision))
            if decision.verdict is Verdict.ACCEPTED:
                claimed.append(ready)
        return claimed

    def _order(self, ready: _Ready) -> Order:
        return order_for(self._hot[ready.execution_id].execution, ready.order_id)

    async def renew(self, worker_id: str, leases: dict[str, int]) -> frozenset[str]:
        until = self._clock.now() + LEASE_TTL_S
        lost = [
            order_id
            for order_id, epoch in leases.items()
            if not await self._store.renew(order_id, lease_epoch=epoch, lease_until=until)
        ]
        return frozenset(lost)

    async def net(self, net_hash: str) -> Net:
        if net_hash not in self._plans:
            self._plan(Plan(from_json(await self._store.net(net_hash)), load=self._results.load))
        return self._plans[net_hash].net

    def keep(self, value: Any) -> Reference:
        return self._results.put(value)

    def load(self, reference: Reference) -> Any:
        return self._results.load(reference)

    # the shell itself

    def _plan(self, plan: Plan) -> Plan:
        return self._plans.setdefault(plan.net_hash, plan)

    async def _load(self, execution_id: str) -> _Hot:
        """The execution as memory has it, else as the log tells it."""
        hot = self._hot.get(execution_id)
        if hot is not None and execution_id not in self._stale:
            return hot
        self._stale.discard(execution_id)
        row = await self._store.execution(execution_id)
        if row is None:
            raise RefusedError(f"there is no execution {execution_id} in this store")
        execution = replayed(execution_id, row.trace_id, await self._store.events(execution_id))
        await self.net(execution.net_hash)
        ended = hot.ended if hot else asyncio.Event()
        hot = _Hot(self._plans[execution.net_hash], execution, row.created_at, execution.seq, ended)
        if execution_id in self._hot:  # decided and not stored: what it had offered is read again as well
            await self._offer_again(execution_id)
        self._hot[execution_id] = hot
        if not execution.is_open:
            ended.set()
        return hot

    async def _offer_again(self, execution_id: str) -> None:
        waiting = [order for order in await self._store.orders(execution_id) if order.state is OrderState.READY]
        self._ready.extend(_Ready(execution_id, order.order_id) for order in waiting)
        self._dispatch.ring(len(waiting))

    def _decide(self, execution_id: str, command: Command) -> Decision:
        hot = self._hot[execution_id]
        decision = advance(hot.plan, hot.execution, command)
        for effect in decision.effects:
            if isinstance(effect, DispatchStep):
                self._ready.append(_Ready(execution_id, effect.order_id))
        return decision

    async def _commit(self, decisions: list[tuple[str, Decision]]) -> None:
        """Store everything decided in one transaction, then perform what is owed."""
        touched = dict.fromkeys(execution_id for execution_id, decision in decisions if decision.events)
        commits = [self._gathered(execution_id, decisions) for execution_id in touched]
        try:
            if commits:
                await self._store.commit(commits)
        except BaseException:
            self._forget(touched)
            raise
        for commit in commits:
            self._hot[commit.execution.execution_id].committed = commit.execution.last_seq
        self._perform(commits, decisions)

    def _gathered(self, execution_id: str, decisions: list[tuple[str, Decision]]) -> Commit:
        hot = self._hot[execution_id]
        execution = hot.execution
        own = [decision for of, decision in decisions if of == execution_id]
        effects = [effect for decision in own for effect in decision.effects]
        return Commit(
            after=hot.committed,
            execution=ExecutionRow(
                execution_id=execution_id,
                trace_id=execution.trace_id,
                path=execution.path,
                name=hot.plan.net.name,
                net_hash=execution.net_hash,
                status=execution.status.value if execution.status else "running",
                last_seq=execution.seq,
                created_at=hot.created_at,
                finished_at=execution.finished_at,
            ),
            events=tuple(event for decision in own for event in decision.events),
            orders=order_rows(execution_id, effects, now=self._clock.now()),
            net=hot.plan.net_json() if hot.committed == 0 else None,
        )

    def _forget(self, execution_ids: Sequence[str] | dict[str, None]) -> None:
        """Drop what was decided and not stored; the next use reads the log."""
        for execution_id in execution_ids:
            if self._hot[execution_id].committed:
                self._stale.add(execution_id)
            else:
                del self._hot[execution_id]  # it never began
        self._ready = deque(ready for ready in self._ready if ready.execution_id not in execution_ids)

    def _perform(self, commits: list[Commit], decisions: list[tuple[str, Decision]]) -> None:
        if self._watch is not None:
            for commit in commits:
                self._watch(commit.events)
        if self._ready:
            self._dispatch.ring(len(self._ready))
        for execution_id, decision in decisions:
            if any(isinstance(effect, EndExecution) for effect in decision.effects):
                self._hot[execution_id].ended.set()
