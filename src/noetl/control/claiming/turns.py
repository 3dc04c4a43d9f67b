"""Turns: reports of a worker are recorded and its next orders claimed, in one batch of the group commit
(performance.md §2).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, NoetlError, UnreadableError
from noetl.control.claiming.claims import Claims
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.decisions import Decisions
from noetl.control.commit.group_commit import DecideAgainError, GroupCommit
from noetl.control.commit.sharing import SharingPolicy
from noetl.engine.commands import RecordReport
from noetl.engine.decision import Decision
from noetl.events.orders import Order, Report, ReportResult, Turn, TurnAnswer


class Turns:
    def __init__(
        self, group_commit: GroupCommit, decisions: Decisions, claims: Claims, clock: Clock, policy: SharingPolicy
    ) -> None:
        self._group_commit, self._decisions, self._claims = group_commit, decisions, claims
        self._clock, self._policy = clock, policy

    async def take(self, turn: Turn) -> TurnAnswer:
        """Where executions are isolated, every report is decided for itself: what is contested by another server does
        not hold up the rest."""
        if self._policy.isolates_executions:
            recorded = [(report.execution_id, partial(self._record_safely, report)) for report in turn.reports]
            claimed = (None, partial(self._claims.claim, turn))
            *decisions, orders = await self._group_commit.decide_each([*recorded, claimed])
            # After all of them: what could be stored is stored. The worker repeats the turn, and a report that was
            # recorded before changes nothing.
            for one in (*decisions, orders):
                if isinstance(one, BaseException):
                    raise one
            return self._answer(turn, decisions, orders)

        async def decided(batch: CommitBatch) -> TurnAnswer:
            decisions = [await self._record(report, batch) for report in turn.reports]
            return self._answer(turn, decisions, await self._claims.claim(turn, batch))

        return await self._group_commit.run(decided)

    def _answer(self, turn: Turn, decisions: Sequence[Decision], orders: Sequence[Order]) -> TurnAnswer:
        told = list(zip(turn.reports, decisions, strict=True))
        return TurnAnswer(
            verdicts=tuple(decision.verdict for decision in decisions),
            orders=tuple(orders),
            stopped={report.order_id: decision.stopped for report, decision in told if decision.stopped},
            paused=tuple(report.order_id for report in turn.reports if self._is_paused(report.execution_id)),
        )

    def _is_paused(self, execution_id: str) -> bool:
        return (
            execution_id in self._decisions.loaded and self._decisions.loaded[execution_id].execution.lifecycle.paused
        )

    async def _record(self, report: Report, batch: CommitBatch) -> Decision:
        await self._decisions.load(report.execution_id)
        return self._decisions.decide(batch, report.execution_id, RecordReport(at=self._clock.now(), report=report))

    async def _record_safely(self, report: Report, batch: CommitBatch) -> Decision:
        """A report on an execution that breaks is refused, so that the worker's other reports arrive (P8)."""
        quarantine = self._decisions.quarantine
        if quarantine.holds(report.execution_id):
            return Decision(verdict=ReportResult.REFUSED)
        try:
            return await self._record(report, batch)
        except Exception as problem:
            is_ours = isinstance(problem, NoetlError) and not isinstance(problem, BackendError)
            if is_ours or (isinstance(problem, BackendError) and not isinstance(problem, UnreadableError)):
                raise
            quarantine.note(report.execution_id, problem)
            # Undo what it touched, then decide again: the quarantine above refuses the report this time.
            raise DecideAgainError from problem
