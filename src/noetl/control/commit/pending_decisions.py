"""Pending decisions: what callers of the group commit want decided, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from noetl.control.commit.batch import CommitBatch

Decide = Callable[[CommitBatch], Awaitable[Any]]


class PendingDecision:
    """What one caller wants decided."""

    def __init__(
        self,
        decide: Decide,
        answer: asyncio.Future[Any] | None = None,
        *,
        subject: str | None = None,
        group: object = None,
    ) -> None:
        # `answer`: where the caller waits for the result; None for a caller that runs the batch itself, and for claims
        # of polls, which nobody waits for here. `subject`: the execution it is about, where that is known beforehand.
        # `group`: shared by what has to be decided in the order it was asked for, such as the reports of one turn.
        self.decide, self.answer, self.subject, self.group = decide, answer, subject, group
        # The executions that this decision has used, filled by the batch; `GroupCommit._undo` finds by it who is
        # affected when a decision raises.
        self.touched: set[str] = set()
        self.result: Any = None
        self.problem: BaseException | None = None
        self.tries = 0
        self._is_queued = False
        self.is_settled = False  # stored, or given up

    def enqueue(self) -> bool:
        """Whether it is to be queued now."""
        # A timer and the failure of a batch may both queue the same decision.
        if self.is_settled or self._is_queued:
            return False
        self._is_queued = True
        return True

    def dequeue(self) -> None:
        # Before its batch runs: a decision that is postponed during it may queue again.
        self._is_queued = False

    def is_in_the_way_of(self, other: PendingDecision) -> bool:
        """Whether `other` is about another execution, as far as that is known, and somebody waits for it. What a turn
        claims comes after its reports in any case."""
        if other.subject is not None:
            return other.subject != self.subject
        return other.group is None and other.answer is not None

    async def try_again(self, batch: CommitBatch) -> None:
        """Decide it, for the first time or anew."""
        self.problem, self.touched, self.tries = None, set(), self.tries + 1
        batch.note_touched_in(self.touched)
        self.result = await self.decide(batch)

    def settle(self) -> None:
        """It is stored."""
        self.is_settled = True

    def fail(self, problem: BaseException) -> None:
        """It is given up."""
        self.is_settled = True
        # The decision's own error says more than that of the batch.
        if self.problem is None:
            self.problem = problem

    @property
    def is_unwanted(self) -> bool:
        # A cancelled caller leaves its future done. Deciding for it would store what nobody waits for.
        return self.answer is not None and self.answer.done()

    def resolve_answer(self) -> None:
        # Not settled: it was queued again and will be answered by a later batch.
        if self.answer is None or self.answer.done() or not self.is_settled:
            return
        if self.problem is not None:
            self.answer.set_exception(self.problem)
        else:
            self.answer.set_result(self.result)


def fail(requests: list[PendingDecision], problem: BaseException) -> None:
    for request in requests:
        request.fail(problem)
