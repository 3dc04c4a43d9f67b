"""What several callers want is decided one after another and stored in one transaction (performance.md §2).

While a round is under way, whoever comes waits, and all of them share the next one; no timer holds anything back. A
lone caller decides and commits where it stands. A crowd is carried by a task of its own, so that no caller who goes
away in the middle takes the others with it.

Why a decision never stands on what is not stored: deciding changes executions in memory, in place, and that cannot be
undone. So rounds follow each other strictly: nobody decides while a commit is under way, and what a decision finds in
memory is in the log, or was decided in this very round and is stored with it or not at all. If a commit fails, or
nobody knows whether it did, everything the round has touched is forgotten and read again from the log. If one caller's
decision breaks, what that caller has touched is forgotten likewise; others of the round who touched the same executions
built on it, and decide again. The rest of the round is stored.

A conflict with another server is met by deciding again at once, then each for itself, so that one contested execution
does not hold up the others; who meets it again waits a random moment, growing, outside of any round. Who wanted what
another has for good is told at once. Who needs a value that has to be brought from outside waits for it likewise.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

from noetl.base.errors import BackendError, UnfitError
from noetl.control.commit.batch import CommitBatch, NotStoredError
from noetl.control.commit.pending_decisions import Decide, PendingDecision, fail
from noetl.control.results.result_cache import ResultNotLoadedError
from noetl.store.contract import Commit, ConflictError, TakenError

_T = TypeVar("_T")
_TRIES = 5  # at once
_MOST_TRIES = 30  # with a moment in between
_FIRST_S, _LONGEST_S = 0.001, 0.2


class DecideAgainError(Exception):
    """Something was in the way that is out of it now: decide again. It says what that was."""


class CommitMemory(Protocol):
    """What rounds decide upon."""

    async def refresh(self) -> None:
        """Read again what was forgotten."""

    async def commit(self, batch: CommitBatch) -> list[Commit]:
        """Store all of it in one transaction."""

    def perform(self, batch: CommitBatch, commits: Sequence[Commit]) -> None:
        """Do what is owed now that it is stored."""

    def forget(self, execution_ids: Collection[str], *, conflicting: bool = False) -> None:
        """Drop what was decided and not stored. `conflicting`: because others have moved some of them."""


class GroupCommit:
    """`gathers`: give whoever runs at this moment the chance to join, before a round begins. It is for servers, where
    callers come from outside by the dozen and a commit of the store may not let them in."""

    def __init__(self, memory: CommitMemory, *, gathers: bool = False) -> None:
        self._memory, self._gathers = memory, gathers
        self.further: Callable[[], Sequence[Decide]] = tuple  # decided after what was asked for, in a server
        self._waiting: list[PendingDecision] = []
        self._carrier: asyncio.Task[None] | None = None
        self._bringing: set[asyncio.Task[None]] = set()
        self._is_busy = False

    async def together(self, decide: Callable[[CommitBatch], Awaitable[_T]], *, gathers: bool = False) -> _T:
        """Decide something and have it stored; again from the log, if others moved it meanwhile. Not from inside.
        `gathers`: others may well want the same at this moment."""
        if self._is_busy or self._gathers:
            return await self._join(decide)
        self._is_busy = True
        wishes = [PendingDecision(decide)]
        try:
            if gathers:
                await asyncio.sleep(0)  # whoever else asks at this moment has had their word then
                wishes += self._next_batch()
            await self._round(wishes)
        except BaseException:
            self._queue(*wishes[1:])  # they decide again, without it
            raise
        finally:
            for wish in wishes:
                wish.resolve_answer()
            self._go_on()
        if wishes[0].problem is not None:
            raise wishes[0].problem
        result: _T = wishes[0].result
        return result

    def _next_batch(self) -> list[PendingDecision]:
        """Those who wait and still want it."""
        waiting, self._waiting = self._waiting, []
        for wish in waiting:
            wish.is_queued = False
        return [wish for wish in waiting if not wish.is_unwanted]

    async def _join(self, decide: Callable[[CommitBatch], Awaitable[_T]]) -> _T:
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._queue(PendingDecision(decide, answer))
        return await answer

    async def each(self, decides: Sequence[Decide]) -> list[Any]:
        """Have several things decided in their order, in one round, each for itself: what became of each, or the
        problem that kept it from being."""
        answers = [asyncio.get_running_loop().create_future() for _ in decides]
        self._queue(*(PendingDecision(decide, answer) for decide, answer in zip(decides, answers, strict=True)))
        return await asyncio.gather(*answers, return_exceptions=True)

    def _queue(self, *wishes: PendingDecision) -> None:
        for wish in wishes:
            if not (wish.is_settled or wish.is_queued):
                wish.is_queued = True
                self._waiting.append(wish)
        if self._waiting and not self._is_busy:
            self._is_busy = True
            self._go_on()

    async def settled(self) -> None:
        """Return once nothing is under way."""
        while under_way := {*self._bringing, *([self._carrier] if self._carrier is not None else ())}:
            await asyncio.wait(under_way)

    def _go_on(self) -> None:
        if self._waiting:
            self._carrier = asyncio.ensure_future(self._commit_batches())
        else:
            self._is_busy = False

    async def _commit_batches(self) -> None:
        wishes: list[PendingDecision] = []
        try:
            while self._waiting:
                wishes = self._next_batch()
                await self._round([*wishes, *map(PendingDecision, self.further())])
                for wish in wishes:
                    wish.resolve_answer()
        except BaseException:  # the program is ending
            for wish in wishes + self._waiting:
                if wish.answer is not None:
                    wish.answer.cancel()
            self._waiting = []
            raise
        finally:
            self._carrier, self._is_busy = None, False

    async def _round(self, wishes: list[PendingDecision]) -> None:
        """Every wish ends with a result or a problem."""
        for tries in range(1, _TRIES + 1):
            batch, decided = CommitBatch(), wishes
            try:
                await self._memory.refresh()
                decided = await self._decided(batch, wishes)
                commits = await self._memory.commit(batch)
                for wish in decided:
                    wish.is_settled = True
                self._perform(batch, commits, decided)
                break
            except Exception as problem:
                is_conflict, is_taken = isinstance(problem, ConflictError), isinstance(problem, TakenError)
                self._memory.forget(batch.touched, conflicting=is_conflict)
                wishes = decided
                if (
                    isinstance(problem, ResultNotLoadedError)
                    and tries < _TRIES
                    and await _fetch_missing(problem, wishes)
                ):
                    continue
                if is_taken and len(wishes) == 1:
                    fail(wishes, problem)
                    break
                if is_conflict and len(wishes) == 1 and wishes[0].answer is not None and wishes[0].tries < _MOST_TRIES:
                    self._postpone(wishes[0])
                    break
                if tries == _TRIES or not (is_conflict or len(wishes) > 1) or _is_fatal(problem):
                    fail(wishes, problem)
                    break
                if len(wishes) > 1 and (tries > 1 or is_taken or not is_conflict):  # one of them spoils it for all
                    await self._one_by_one(wishes)
                    break
            except BaseException:
                self._memory.forget(batch.touched)
                raise
            finally:
                for tell in batch.at_the_end:
                    tell()

    def _postpone(self, wish: PendingDecision) -> None:
        """Let others have their turn, also those of other servers."""
        longest_s = min(_FIRST_S * 2**wish.tries, _LONGEST_S)
        asyncio.get_running_loop().call_later(random.uniform(0, longest_s), self._queue, wish)  # noqa: S311

    def _fetch_then_queue(self, wish: PendingDecision, away: ResultNotLoadedError) -> None:
        """It is decided once what it needs has come; the others of the round go on."""

        async def fetched() -> None:
            if await _fetch_missing(away, [wish]):
                self._queue(wish)
            else:
                wish.resolve_answer()

        task = asyncio.ensure_future(fetched())
        self._bringing.add(task)
        task.add_done_callback(self._bringing.discard)

    def _perform(self, batch: CommitBatch, commits: Sequence[Commit], wishes: list[PendingDecision]) -> None:
        """Whatever breaks here, it is stored: nothing is decided again, and the callers hear of it."""
        try:
            self._memory.perform(batch, commits)
        except Exception as problem:
            fail(wishes, problem)

    async def _one_by_one(self, wishes: list[PendingDecision]) -> None:
        for wish in wishes:
            if wish.problem is None:
                await self._round([wish])

    async def _decided(self, batch: CommitBatch, wishes: list[PendingDecision]) -> list[PendingDecision]:
        """Have every wish decided; gives those that did not break."""
        decided: list[PendingDecision] = []
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
                if isinstance(problem, DecideAgainError) and wish.tries < _MOST_TRIES:
                    pending.append(wish)
                elif isinstance(problem, ResultNotLoadedError) and wish.tries < _MOST_TRIES:
                    if wish.answer is not None:
                        self._fetch_then_queue(wish, problem)
                    elif await _fetch_missing(problem, [wish]):
                        pending.append(wish)
                else:
                    cause = problem.__cause__ if isinstance(problem, DecideAgainError) else None
                    wish.problem, wish.is_settled = cause or problem, True
                if wish.touched or broken:
                    await self._memory.refresh()
        return decided

    def _undo(self, batch: CommitBatch, wish: PendingDecision, decided: list[PendingDecision]) -> list[PendingDecision]:
        """Forget what a wish touched, and with it the wishes that share something with it, directly or not."""
        spoiled, broken = set(wish.touched), list[PendingDecision]()
        while more := [one for one in decided if one not in broken and not spoiled.isdisjoint(one.touched)]:
            broken += more
            spoiled.update(*(one.touched for one in more))
        batch.drop(spoiled)
        self._memory.forget(spoiled)
        return broken


async def _fetch_missing(away: ResultNotLoadedError, wishes: list[PendingDecision]) -> bool:
    """Whether what was lacking has come; else these wishes have failed."""
    try:
        await away.fetch()
    except Exception as problem:
        fail(wishes, problem)
        return False
    return True


def _is_fatal(problem: Exception) -> bool:
    """The store itself does not work: there is no use in trying again, or one by one."""
    return isinstance(problem, BackendError) and not isinstance(problem, ConflictError | NotStoredError | UnfitError)
