"""Recovery: what a server learns by looking: orders of the store that memory does not know, and step runs that other
servers have ended.
"""

from __future__ import annotations

from collections.abc import Mapping

from noetl.base.clock import Clock
from noetl.control.claiming.claims import Claims
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.decisions import Decisions
from noetl.control.commit.group_commit import GroupCommit
from noetl.engine.commands import LoseOrder
from noetl.events.orders import ReportResult
from noetl.store.contract import OrderRow


class Recovery:
    def __init__(self, group_commit: GroupCommit, decisions: Decisions, claims: Claims, clock: Clock) -> None:
        self._group_commit, self._decisions, self._claims, self._clock = group_commit, decisions, claims, clock

    async def ended_runs(self, runs: Mapping[str, str]) -> list[str]:
        """Which of these step runs, each with its execution, are over; whoever has ended them."""

        async def looked(batch: CommitBatch) -> list[str]:
            loaded = self._decisions.loaded
            await self._decisions.follow(set(runs.values()))
            for execution_id in set(runs.values()):
                if execution_id not in loaded:
                    await self._decisions.load(execution_id)
            executions = {run: loaded[execution_id].execution for run, execution_id in runs.items()}
            return [run for run, its in executions.items() if not its.is_open or run not in its.runs]

        # In a batch although it stores nothing: only there memory may be brought up to date.
        return await self._group_commit.run(looked)

    async def seek(self) -> list[OrderRow]:
        """Find the orders of the store that wait for a worker, and ring for all that are known here. Gives those that
        are to be given to nobody any more."""

        async def sought(batch: CommitBatch) -> list[OrderRow]:
            worn_out = await self._claims.seek()
            self._decisions.effects.notify_workers()
            # Suspect orders are not among the ready ones, so nobody else would wake a worker for them.
            self._decisions.effects.notify_workers(self._claims.poison_orders.counts)
            return worn_out

        return await self._group_commit.run(sought)

    async def lose(self, order: OrderRow) -> ReportResult:
        """Too many workers were lost with this order."""

        async def lost(batch: CommitBatch) -> ReportResult:
            await self._decisions.load(order.execution_id)
            command = LoseOrder(at=self._clock.now(), order_id=order.order_id, seen_epoch=order.lease_epoch)
            return self._decisions.decide(batch, order.execution_id, command).verdict

        return await self._group_commit.run(lost)
