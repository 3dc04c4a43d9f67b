"""Recovery: finds orders of the store that memory does not know, and step runs that other servers have ended."""

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
    """Every method runs in a batch of the group commit: only there memory may be brought up to date."""

    def __init__(self, group_commit: GroupCommit, decisions: Decisions, claims: Claims, clock: Clock) -> None:
        self._group_commit, self._decisions, self._claims, self._clock = group_commit, decisions, claims, clock

    async def ended_runs(self, runs: Mapping[str, str]) -> list[str]:
        """Those of these step runs (with their executions) that have ended, on whichever server."""

        async def find_ended(batch: CommitBatch) -> list[str]:
            loaded = self._decisions.loaded
            await self._decisions.follow(set(runs.values()))
            for execution_id in set(runs.values()):
                if execution_id not in loaded:
                    await self._decisions.load(execution_id)
            executions = {run: loaded[execution_id].execution for run, execution_id in runs.items()}
            return [run for run, execution in executions.items() if not execution.is_open or run not in execution.runs]

        return await self._group_commit.run(find_ended)

    async def seek(self) -> list[OrderRow]:
        """Find the orders of the store that wait for a worker, and send wake-ups for all ready orders. Returns those
        that too many workers were lost with."""

        async def seek_in_batch(batch: CommitBatch) -> list[OrderRow]:
            worn_out = await self._claims.seek()
            self._decisions.effects.notify_workers()
            # Suspect orders are not among the ready ones: without this no worker would be woken for them.
            self._decisions.effects.notify_workers(self._claims.poison_orders.counts)
            return worn_out

        return await self._group_commit.run(seek_in_batch)

    async def lose(self, order: OrderRow) -> ReportResult:
        """Give up an order that too many workers were lost with."""

        async def lose_in_batch(batch: CommitBatch) -> ReportResult:
            await self._decisions.load(order.execution_id)
            command = LoseOrder(at=self._clock.now(), order_id=order.order_id, seen_epoch=order.lease_epoch)
            return self._decisions.decide(batch, order.execution_id, command).verdict

        return await self._group_commit.run(lose_in_batch)
