"""Turns: what a worker reports is recorded and what it may take is claimed, in one round (PERFORMANCE §2)."""

from __future__ import annotations

from noetl.clock import Clock
from noetl.engine.commands import RecordReport
from noetl.engine.decision import Decision
from noetl.errors import BackendError, NoetlError
from noetl.orchestrator.batch import Batch
from noetl.orchestrator.claims import Claims
from noetl.orchestrator.decisions import Decisions
from noetl.orchestrator.hot import UnreadableError
from noetl.orchestrator.rounds import AgainError
from noetl.records.orders import Answer, Report, Turn, Verdict


class Turns:
    """All of it inside a round."""

    def __init__(self, decisions: Decisions, claims: Claims, clock: Clock, *, is_shared: bool) -> None:
        self._decisions, self._claims, self._clock, self._is_shared = decisions, claims, clock, is_shared

    async def take(self, turn: Turn, batch: Batch) -> Answer:
        verdicts: list[Verdict] = []
        stopped: dict[str, tuple[tuple[int, ...], ...]] = {}
        for report in turn.reports:
            decision = await (self._record_safely if self._is_shared else self._record)(report, batch)
            verdicts.append(decision.verdict)
            if decision.stopped:
                stopped[report.order_id] = decision.stopped
        orders = await self._claims.claim(turn, batch)
        paused = tuple(report.order_id for report in turn.reports if self._is_paused(report.execution_id))
        return Answer(verdicts=tuple(verdicts), orders=tuple(orders), stopped=stopped, paused=paused)

    def _is_paused(self, execution_id: str) -> bool:
        return execution_id in self._decisions.hot and self._decisions.hot[execution_id].execution.paused

    async def _record(self, report: Report, batch: Batch) -> Decision:
        await self._decisions.load(report.execution_id)
        return self._decisions.decide(batch, report.execution_id, RecordReport(at=self._clock.now(), report=report))

    async def _record_safely(self, report: Report, batch: Batch) -> Decision:
        """A report on an execution that breaks is refused, so that the worker's other reports arrive (P8)."""
        quarantine = self._decisions.quarantine
        if quarantine.holds(report.execution_id):
            return Decision(verdict=Verdict.REFUSED)
        try:
            return await self._record(report, batch)
        except Exception as problem:
            is_ours = isinstance(problem, NoetlError) and not isinstance(problem, BackendError)
            if is_ours or (isinstance(problem, BackendError) and not isinstance(problem, UnreadableError)):
                raise
            quarantine.note(report.execution_id, problem)
            raise AgainError from problem
