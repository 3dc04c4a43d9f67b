"""Rounds: what several callers want is decided one after another and stored in one transaction (PERFORMANCE §2).

While a round is under way, whoever comes waits, and all of them share the next one; no timer holds anything back. A
lone caller decides and commits where it stands. A crowd is carried by a task of its own, so that no caller who goes
away in the middle takes the others with it.

Why a decision never stands on what is not stored: deciding changes executions in memory, in place, and that cannot be
undone. So rounds follow each other strictly: nobody decides while a commit is under way, and what a decision finds in
memory is in the log, or was decided in this very round and is stored with it or not at all. If a commit fails, or
nobody knows whether it did, everything the round has touched is forgotten and read again from the log. If one caller's
decision breaks, what that caller has touched is forgotten likewise; others of the round who touched the same executions
built on it, and decide again. The rest of the round is stored.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

from noetl.errors import BackendError
from noetl.orchestrator.batch import Batch
from noetl.store.contract import Commit, ConflictError

Decide = Callable[[Batch], Awaitable[Any]]
_T = TypeVar("_T")
_TRIES = 5


class AgainError(Exception):
    """Something was in the way that is out of it now: decide again. It says what that was."""


class Memory(Protocol):
    """What rounds decide upon."""

    async def refresh(self) -> None:
        """Read again what was forgotten."""

    async def commit(self, batch: Batch) -> list[Commit]:
        """Store all of it in one transaction."""

    def perform(self, batch: Batch, commits: Sequence[Commit]) -> None:
        """Do what is owed now that it is stored."""

    def forget(self, execution_ids: Collection[str], *, conflicting: bool = False) -> None:
        """Drop what was decided and not stored. `conflicting`: because others have moved some of them."""


class _Wish:
    """What one caller wants. `answer` is set for one who waits."""

    def __init__(self, decide: Decide, answer: asyncio.Future[Any] | None = None) -> None:
        self.decide, self.answer = decide, answer
        self.touched: set[str] = set()
        self.result: Any = None
        self.problem: BaseException | None = None
        self.tries = 0

    @property
    def is_unwanted(self) -> bool:
        return self.answer is not None and self.answer.done()

    def tell(self) -> None:
        if self.answer is None or self.answer.done():
            return
        if self.problem is not None:
            self.answer.set_exception(self.problem)
        else:
            self.answer.set_result(self.result)


class Rounds:
    """`gathers`: give whoever runs at this moment the chance to join, before a round begins. It is for servers, where
    callers come from outside by the dozen and a commit of the store may not let them in."""

    def __init__(self, memory: Memory, *, gathers: bool = False) -> None:
        self._memory, self._gathers = memory, gathers
        self._waiting: list[_Wish] = []
        self._carrier: asyncio.Task[None] | None = None
        self._is_busy = False

    async def together(self, decide: Callable[[Batch], Awaitable[_T]], *, gathers: bool = False) -> _T:
        """Decide something and have it stored; again from the log, if others moved it meanwhile. Not from inside.
        `gathers`: others may well want the same at this moment."""
        if self._is_busy or self._gathers:
            return await self._join(decide)
        self._is_busy = True
        wishes = [_Wish(decide)]
        try:
            if gathers:
                await asyncio.sleep(0)  # whoever else asks at this moment has had their word then
                wishes += self._taken()
            await self._round(wishes)
        except BaseException:
            self._waiting[:0] = wishes[1:]  # this caller goes away, and the others decide again without it
            raise
        finally:
            self._go_on()
        for wish in wishes:
            wish.tell()
        if wishes[0].problem is not None:
            raise wishes[0].problem
        result: _T = wishes[0].result
        return result

    def _taken(self) -> list[_Wish]:
        """Those who wait and still want it."""
        waiting, self._waiting = self._waiting, []
        return [wish for wish in waiting if not wish.is_unwanted]

    async def _join(self, decide: Callable[[Batch], Awaitable[_T]]) -> _T:
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Wish(decide, answer))
        if not self._is_busy:
            self._is_busy = True
            self._go_on()
        return await answer

    async def settled(self) -> None:
        """Return once nothing is under way."""
        while self._carrier is not None:
            await asyncio.wait({self._carrier})

    def _go_on(self) -> None:
        if self._waiting:
            self._carrier = asyncio.ensure_future(self._carry())
        else:
            self._is_busy = False

    async def _carry(self) -> None:
        wishes: list[_Wish] = []
        try:
            while self._waiting:
                wishes = self._taken()
                await self._round(wishes)
                for wish in wishes:
                    wish.tell()
        except BaseException:  # the program is ending
            for wish in wishes + self._waiting:
                if wish.answer is not None:
                    wish.answer.cancel()
            self._waiting = []
            raise
        finally:
            self._carrier, self._is_busy = None, False

    async def _round(self, wishes: list[_Wish]) -> None:
        """Every wish ends with a result or a problem."""
        for tries in range(1, _TRIES + 1):
            batch, decided = Batch(), wishes
            try:
                await self._memory.refresh()
                decided = await self._decided(batch, wishes)
                commits = await self._memory.commit(batch)
                self._perform(batch, commits, decided)
                break
            except Exception as problem:
                is_conflict = isinstance(problem, ConflictError)
                self._memory.forget(batch.touched, conflicting=is_conflict)
                wishes = decided
                if tries == _TRIES or not (is_conflict or len(wishes) > 1) or _is_fatal(problem):
                    _fail(wishes, problem)
                    break
                if len(wishes) > 1 and (tries > 1 or not is_conflict):  # one of them spoils it for all
                    await self._one_by_one(wishes)
                    break
            except BaseException:
                self._memory.forget(batch.touched)
                raise

    def _perform(self, batch: Batch, commits: Sequence[Commit], wishes: list[_Wish]) -> None:
        """Whatever breaks here, it is stored: nothing is decided again, and the callers hear of it."""
        try:
            self._memory.perform(batch, commits)
        except Exception as problem:
            _fail(wishes, problem)

    async def _one_by_one(self, wishes: list[_Wish]) -> None:
        for wish in wishes:
            if wish.problem is None:
                await self._round([wish])

    async def _decided(self, batch: Batch, wishes: list[_Wish]) -> list[_Wish]:
        """Have every wish decided; gives those that did not break."""
        decided: list[_Wish] = []
        pending = deque(wishes)
        while pending:
            wish = pending.popleft()
            wish.problem, wish.touched, wish.tries = None, set(), wish.tries + 1
            batch.touching = wish.touched
            try:
                wish.result = await wish.decide(batch)
                decided.append(wish)
            except Exception as problem:
                broken = self._undo(batch, wish, decided)
                decided = [one for one in decided if one not in broken]
                pending += broken
                if isinstance(problem, AgainError) and wish.tries < _TRIES:
                    pending.append(wish)
                else:
                    wish.problem = problem.__cause__ or problem if isinstance(problem, AgainError) else problem
                if wish.touched or broken:
                    await self._memory.refresh()
        return decided

    def _undo(self, batch: Batch, wish: _Wish, decided: list[_Wish]) -> list[_Wish]:
        """Forget what a wish touched, and with it the wishes that share something with it, directly or not."""
        spoiled, broken = set(wish.touched), list[_Wish]()
        while more := [one for one in decided if one not in broken and not spoiled.isdisjoint(one.touched)]:
            broken += more
            spoiled.update(*(one.touched for one in more))
        batch.drop(spoiled)
        self._memory.forget(spoiled)
        return broken


def _is_fatal(problem: Exception) -> bool:
    """The store itself does not work: there is no use in trying again, or one by one."""
    return isinstance(problem, BackendError) and not isinstance(problem, ConflictError)


def _fail(wishes: list[_Wish], problem: BaseException) -> None:
    for wish in wishes:
        if wish.problem is None:
            wish.problem = problem
