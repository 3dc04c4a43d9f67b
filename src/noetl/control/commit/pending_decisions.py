"""What callers want decided in a round, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from noetl.control.commit.batch import CommitBatch

Decide = Callable[[CommitBatch], Awaitable[Any]]


class PendingDecision:
    """What one caller wants. `answer` is set for one who waits."""

    def __init__(self, decide: Decide, answer: asyncio.Future[Any] | None = None) -> None:
        self.decide, self.answer = decide, answer
        self.touched: set[str] = set()
        self.result: Any = None
        self.problem: BaseException | None = None
        self.tries = 0
        self.is_queued = False
        self.is_settled = False  # stored, or given up

    @property
    def is_unwanted(self) -> bool:
        return self.answer is not None and self.answer.done()

    def resolve_answer(self) -> None:
        if self.answer is None or self.answer.done() or not self.is_settled:
            return
        if self.problem is not None:
            self.answer.set_exception(self.problem)
        else:
            self.answer.set_result(self.result)


def fail(wishes: list[PendingDecision], problem: BaseException) -> None:
    for wish in wishes:
        wish.is_settled = True
        if wish.problem is None:
            wish.problem = problem
