"""Hot executions: those kept in memory, with their plans, as far as the log has them (DESIGN §3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import msgspec

from noetl.engine.evolution import replayed
from noetl.engine.execution import Execution
from noetl.engine.plan import Plan
from noetl.errors import BackendError, RefusedError, ToolError
from noetl.net.encoding import from_json
from noetl.net.net import Net
from noetl.records.envelope import Event, whole
from noetl.store.contract import Results, Store


class Hot(msgspec.Struct):
    """An execution kept in memory. `committed` is the last `seq` the store has."""

    plan: Plan
    execution: Execution
    created_at: float
    committed: int
    ended: asyncio.Event


class HotExecutions:
    """One whose commit failed is stale: what memory holds is not what the log tells, so it is read again."""

    def __init__(self, store: Store, results: Results) -> None:
        self._store, self._results = store, results
        self._hot: dict[str, Hot] = {}
        self._stale: set[str] = set()
        self._plans: dict[str, Plan] = {}
        self._latest: tuple[Net, Plan] | None = None  # a crowd of executions of one net makes one plan
        self._children: dict[str, dict[str, None]] = {}

    def __getitem__(self, execution_id: str) -> Hot:
        return self._hot[execution_id]

    def __contains__(self, execution_id: str) -> bool:
        return execution_id in self._hot

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._hot))

    @property
    def stale(self) -> list[str]:
        return list(self._stale)

    def begin(self, net: Net, execution_id: str, trace_id: str, now: float, parent: str | None) -> Hot:
        """A new execution, of which nothing is stored yet."""
        if self._latest is None or self._latest[0] is not net:
            self._latest = net, self._plan(Plan(net, load=self._results.load, keep=self._results.put))
        plan = self._latest[1]
        execution = Execution(execution_id=execution_id, trace_id=trace_id)
        return self._keep(Hot(plan, execution, now, 0, asyncio.Event()), parent)

    async def load(self, execution_id: str) -> Hot:
        """The execution as memory has it, else as the log tells it."""
        hot = self._hot.get(execution_id)
        if hot is not None and execution_id not in self._stale:
            return hot
        row = await self._store.execution(execution_id)
        if row is None:
            raise RefusedError(f"there is no execution {execution_id} in this store")
        execution = replayed(execution_id, row.trace_id, self._whole(await self._store.events(execution_id)))
        await self.net(execution.net_hash)
        ended = hot.ended if hot else asyncio.Event()
        self._stale.discard(execution_id)
        hot = Hot(self._plans[execution.net_hash], execution, row.created_at, execution.seq, ended)
        if not execution.is_open:
            ended.set()
        return self._keep(hot, execution.parent_execution_id)

    def _whole(self, events: list[Event]) -> list[Event]:
        """The events with what the log only refers to. BackendError where that is gone: nothing is guessed."""
        try:
            return [whole(event, self._results.load) for event in events]
        except ToolError as problem:
            what = f"execution {events[0].execution_id} cannot be read"
            raise BackendError(f"{what}: {problem.message} ({problem.kind})") from problem

    async def net(self, net_hash: str) -> Net:
        if net_hash not in self._plans:
            net = from_json(await self._store.net(net_hash))
            self._plan(Plan(net, load=self._results.load, keep=self._results.put))
        return self._plans[net_hash].net

    def children(self, execution_id: str) -> list[str]:
        """The open children of an execution."""
        found = self._children.get(execution_id, ())
        return [child for child in found if child in self._hot and self._hot[child].execution.is_open]

    def doubt(self, execution_ids: Iterable[str]) -> None:
        """Something was decided and not stored: the next use reads the log."""
        for execution_id in execution_ids:
            if self._hot[execution_id].committed:
                self._stale.add(execution_id)
            else:
                del self._hot[execution_id]  # it never began

    def drop(self, execution_id: str) -> None:
        """Nobody asks for it any more; should somebody, the log has it."""
        hot = self._hot.pop(execution_id, None)
        if hot is not None and (parent := hot.execution.parent_execution_id) is not None:
            self._children.get(parent, {}).pop(execution_id, None)
        self._children.pop(execution_id, None)

    def _keep(self, hot: Hot, parent: str | None) -> Hot:
        execution_id = hot.execution.execution_id
        self._hot[execution_id] = hot
        if parent is not None:
            self._children.setdefault(parent, {})[execution_id] = None
        return hot

    def _plan(self, plan: Plan) -> Plan:
        return self._plans.setdefault(plan.net_hash, plan)
