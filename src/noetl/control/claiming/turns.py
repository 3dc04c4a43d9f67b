"""Turns: reports of a worker are recorded and its next orders claimed, in one batch of the group commit
(performance.md §2).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, NoetlError, UnreadableError
from noetl.control.claiming.claims import Claims
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.decisions import Decisions
from noetl.control.commit.group_commit import DecideAgainError, GroupCommit
from noetl.control.commit.sharing import SharingPolicy
from noetl.engine.commands import RecordReport
from noetl.engine.decision import Decision
from noetl.events.orders import Order, Report, ReportResult, Timed, Turn, TurnAnswer
from noetl.events.steps import StepFailed
from noetl.events.tasks import TaskProcessed
from noetl.events.v2_case_runs import CaseStarted

# As SHARED_EVENTS of the group commit: an entry of a report makes at least one event.
MOST_ENTRIES = 64  # of a report that are decided at once


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
            parts = [split_report(report) for report in turn.reports]
            recorded = [(one.execution_id, partial(self._record_safely, one)) for part in parts for one in part]
            # Last, and in the same group as the reports: what they make ready may be claimed in this turn.
            claimed = (None, partial(self._claims.claim, turn))
            *decisions, orders = await self._group_commit.decide_each([*recorded, claimed])
            # After all of them: what could be stored is stored. The worker repeats the turn, and a report that was
            # recorded before changes nothing.
            for one in (*decisions, orders):
                if isinstance(one, BaseException):
                    raise one
            left = iter(decisions)
            whole = [_joined_decisions([next(left) for _ in part]) for part in parts]
            return self._answer(turn, whole, orders)

        async def decided(batch: CommitBatch) -> TurnAnswer:
            # Reports first: they free the slot, and often make the order ready that is claimed next.
            decisions = [await self._record(report, batch) for report in turn.reports]
            return self._answer(turn, decisions, await self._claims.claim(turn, batch))

        return await self._group_commit.run(decided)

    def _answer(self, turn: Turn, decisions: Sequence[Decision], orders: Sequence[Order]) -> TurnAnswer:
        verdicts, stopped, paused = [], {}, []
        for report, decision in zip(turn.reports, decisions, strict=True):
            verdicts.append(decision.verdict)
            if decision.stopped:
                stopped[report.order_id] = decision.stopped
            loaded = self._decisions.loaded.get(report.execution_id)
            if loaded is not None and loaded.execution.lifecycle.paused:
                paused.append(report.order_id)
        return TurnAnswer(verdicts=tuple(verdicts), orders=tuple(orders), stopped=stopped, paused=tuple(paused))

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
            # Errors of ours are answers to this worker, and a store that is away concerns everybody: both pass. What is
            # left breaks on this execution alone: a log that cannot be read, or a defect.
            is_ours = isinstance(problem, NoetlError) and not isinstance(problem, BackendError)
            if is_ours or (isinstance(problem, BackendError) and not isinstance(problem, UnreadableError)):
                raise
            quarantine.note(report.execution_id, problem)
            # Undo what it touched, then decide again: the quarantine above refuses the report this time.
            raise DecideAgainError from problem


def split_report(report: Report) -> list[Report]:
    """A long report in parts that are decided one after another, so that nobody else waits for all of it (P8)."""
    entries = report.entries
    # The split is safe because a repeated report changes nothing: if the second part fails, the worker sends all of it
    # again.
    if len(entries) <= MOST_ENTRIES or any(_is_of_the_whole(timed) for timed in entries):
        return [report]
    parts = (entries[at : at + MOST_ENTRIES] for at in range(0, len(entries), MOST_ENTRIES))
    return [msgspec.structs.replace(report, entries=part) for part in parts]


def _is_of_the_whole(timed: Timed) -> bool:
    """What iterations of one report write is compared at one moment (O-15), and a failed step ends all of them."""
    entry = timed.entry
    if isinstance(entry, TaskProcessed | CaseStarted):
        return bool(entry.decision.set_ctx)
    return isinstance(entry, StepFailed)


def _joined_decisions(parts: Sequence[Decision]) -> Decision:
    """What its parts came to, as one. A part may find what an earlier one has ended, or what an earlier turn has
    recorded: the report is accepted then. One that came under a lease which is over says so."""
    if len(parts) == 1:
        return parts[0]
    verdicts = [part.verdict for part in parts]
    # By what the worker must know most: that it lost its lease, then that it was refused.
    first = (ReportResult.FENCED, ReportResult.REFUSED, ReportResult.ACCEPTED)
    verdict = next((one for one in first if one in verdicts), verdicts[-1])
    return Decision(verdict=verdict, stopped=tuple(path for part in parts for path in part.stopped))
