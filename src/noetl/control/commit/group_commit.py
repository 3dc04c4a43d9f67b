"""Group commit: decisions of several callers, made one after another and stored in one transaction (performance.md §2,
docs/decisions/0010).

While a batch is being decided and stored, further callers queue, and all of them share the next batch. No timer
delays anything. A lone caller decides and commits in its own task. A queue is worked off by a separate task, so
that a caller that is cancelled does not take the others with it.

A decision never builds on anything that is not stored. Deciding changes executions in memory, in place, and that
cannot be undone. So batches follow each other strictly: nothing is decided during a commit, and what a decision
finds in memory is in the log or belongs to the same batch. If a commit fails, or its outcome is unknown, everything
the batch touched is forgotten and read again from the log. If one decision raises, what it touched is forgotten as
well; other decisions of the batch that touched the same executions are made again. The rest of the batch is stored.

After a conflict with another server the batch is decided again at once, then one decision at a time, so that one
contested execution does not hold up the others. A decision that meets the conflict again waits a random, growing
moment outside of any batch. A decision that needs a value from outside waits for it in the same way.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar

from noetl.base.errors import BackendError, UnfitError
from noetl.control.commit.batch import CommitBatch, NotStoredError
from noetl.control.commit.decisions import Decide, PendingDecision, fail
from noetl.control.commit.effects import Effects
from noetl.control.commit.sharing import SharingPolicy
from noetl.control.results.result_cache import ResultNotLoadedError
from noetl.engine.commands import Command
from noetl.engine.decision import Decision
from noetl.store.contract import Commit, ConflictError, TakenError

_T = TypeVar("_T")
# Five tries bound how long one batch can hold up the queue. A decision that waits outside of batches gives up after
# thirty, which are at most six seconds of pauses; its caller gets the conflict as an error.
_TRIES = 5  # without a pause, before a decision fails
_MOST_TRIES = 30  # with growing pauses in between
_FIRST_S, _LONGEST_S = 0.001, 0.2
# Of one execution in one batch, after which its further reports wait for the next one. A loop reports thousands of
# iterations at once, and everybody in the batch would wait for all of them; a crowd of small executions has no limit.
MOST_EVENTS = 256
# The same where somebody else waits for the batch to end (P8). Alone, a loop has larger batches: a flush costs as much
# as some thirty events.
SHARED_EVENTS = 64


class DecideAgainError(Exception):
    """Something was in the way that is out of it now: decide again. It says what that was."""


class CommitMemory(Protocol):
    """The executions that a batch decides upon."""

    async def refresh(self) -> None:
        """Read again what was forgotten."""

    async def decide_all(self, commands: Sequence[tuple[str, Command]], batch: CommitBatch) -> list[Decision]:
        """Decide commands, in their order."""

    async def commit(self, batch: CommitBatch) -> list[Commit]:
        """Store all of it in one transaction."""

    def forget(self, execution_ids: Collection[str], *, conflicting: bool = False) -> None:
        """Drop what was decided and not stored. `conflicting`: because others have moved some of them."""


class WaitingWorkers(Protocol):
    """Workers that wait for an order while a batch is made."""

    def claims(self) -> Sequence[Decide]:
        """What is to be decided for them after what was asked for."""

    async def hand_out(self, batch: CommitBatch) -> None:
        """Claim what the batch made ready, for the worker in this process."""


class GroupCommit:
    def __init__(
        self, memory: CommitMemory, effects: Effects, waiting_workers: WaitingWorkers, policy: SharingPolicy
    ) -> None:
        self._memory, self._effects, self._waiting_workers, self._policy = memory, effects, waiting_workers, policy
        # Queued for the next batch, in the order they are decided.
        self._waiting: list[PendingDecision] = []
        # The task that works off the queue, while there is one. A lone caller commits without it.
        self._commit_task: asyncio.Task[None] | None = None
        # Downloads of stored results that decisions outside of any batch wait for.
        self._fetches: set[asyncio.Task[None]] = set()
        self._is_busy = False

    async def submit(self, commands: Sequence[tuple[str, Command]]) -> list[Decision]:
        """Have commands decided in their order, and stored in one transaction: all of them or none."""
        return await self.run(partial(self._memory.decide_all, commands))

    async def run(self, decide: Callable[[CommitBatch], Awaitable[_T]], *, gathers: bool = False) -> _T:
        """Decide something and have it stored; again from the log, if others moved it meanwhile. Not from inside.
        `gathers`: others may well want the same at this moment."""
        if self._is_busy or self._policy.queues_callers:
            return await self._join(decide)
        self._is_busy = True
        requests = [PendingDecision(decide)]
        try:
            if gathers:
                await asyncio.sleep(0)  # callers that are ready in this turn of the event loop join the batch
                requests += self._next_batch()
            await self._commit_batch(requests)
        except BaseException:
            # This caller was cancelled. The others joined its batch and must not be lost with it.
            self._queue(*requests[1:])  # they decide again, without it
            raise
        finally:
            for request in requests:
                request.resolve_answer()
            self._go_on()
        if requests[0].problem is not None:
            raise requests[0].problem
        result: _T = requests[0].result
        return result

    def _next_batch(self) -> list[PendingDecision]:
        """The queued decisions whose callers still wait."""
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            request.dequeue()
        return [request for request in waiting if not request.is_unwanted]

    async def _join(self, decide: Callable[[CommitBatch], Awaitable[_T]]) -> _T:
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._queue(PendingDecision(decide, answer))
        return await answer

    async def decide_each(self, decides: Sequence[tuple[str | None, Decide]]) -> list[Any]:
        """Have several things decided in their order, each for itself: what became of each, or the problem that kept
        it from being. Each comes with the execution it is about, if there is one. They share a batch, unless one of
        these executions has had its share of it: then the rest of them comes in the next."""
        loop, group = asyncio.get_running_loop(), object()
        requests, answers = [], []
        for subject, decide in decides:
            answers.append(loop.create_future())
            requests.append(PendingDecision(decide, answers[-1], subject=subject, group=group))
        self._queue(*requests)
        return await asyncio.gather(*answers, return_exceptions=True)

    def _queue(self, *requests: PendingDecision) -> None:
        for request in requests:
            if request.enqueue():
                self._waiting.append(request)
        if self._waiting and not self._is_busy:
            # Set here and not in the task: until the task runs, another caller must see that somebody is at work.
            self._is_busy = True
            self._go_on()

    async def wait_idle(self) -> None:
        """Return once nothing is under way."""
        while under_way := {*self._fetches, *([self._commit_task] if self._commit_task is not None else ())}:
            await asyncio.wait(under_way)

    def _go_on(self) -> None:
        if self._waiting:
            self._commit_task = asyncio.ensure_future(self._commit_batches())
        else:
            self._is_busy = False

    async def _commit_batches(self) -> None:
        requests: list[PendingDecision] = []
        try:
            while self._waiting:
                requests = self._next_batch()
                await self._commit_batch([*requests, *map(PendingDecision, self._waiting_workers.claims())])
                for request in requests:
                    request.resolve_answer()
                if self._waiting:
                    await asyncio.sleep(0)  # whoever has come meanwhile joins the next batch
        except BaseException:  # the program is ending
            # Nobody will answer these any more: cancel them, or their callers wait for ever.
            for request in requests + self._waiting:
                if request.answer is not None:
                    request.answer.cancel()
            self._waiting = []
            raise
        finally:
            self._commit_task, self._is_busy = None, False

    async def _commit_batch(self, requests: list[PendingDecision]) -> None:
        """Decide and store one batch. Every decision ends with a result or a problem, or is queued again."""
        for tries in range(1, _TRIES + 1):
            batch, decided = CommitBatch(), requests
            try:
                # Before anything is decided: a decision upon stale memory would be stored on top of what others
                # wrote.
                await self._memory.refresh()
                decided = await self._decided(batch, requests)
                # Claim inside the commit that made the order ready: one fsync per step instead of two
                # (docs/decisions/0012). No worker receives the order before the commit.
                await self._waiting_workers.hand_out(batch)
                commits = await self._memory.commit(batch)
                # Settled means that the outcome is final. A cancelled lone caller queues the others again, and
                # `enqueue` refuses those that are settled.
                for request in decided:
                    request.settle()
                # Settled first, performed after: what fails from here on is stored, and must not be decided a second
                # time.
                self._perform(batch, commits, decided)
                break
            except Exception as problem:
                self._memory.forget(batch.touched, conflicting=isinstance(problem, ConflictError))
                # Decisions that broke on their own are settled or postponed. Only the others are tried again.
                requests = decided
                if not await self._tries_again(problem, requests, tries):
                    break
            # Cancelled in the middle of a commit: nobody knows whether it is stored, so memory is not to be trusted.
            except BaseException:
                self._memory.forget(batch.touched)
                raise
            finally:
                # After success, failure and cancellation alike: polls wait for this moment (long_polls.py).
                for tell in batch.at_the_end:
                    tell()

    async def _tries_again(self, problem: Exception, requests: list[PendingDecision], tries: int) -> bool:
        """Whether the batch is decided again. If not, its decisions have failed, are queued again, or were decided one
        by one."""
        is_conflict, is_taken = isinstance(problem, ConflictError), isinstance(problem, TakenError)
        is_alone = len(requests) == 1
        if isinstance(problem, ResultNotLoadedError) and tries < _TRIES and await _fetch_missing(problem, requests):
            return True
        # Another caller has the message or the execution id for good. Deciding again would bring the same.
        if is_taken and is_alone:
            fail(requests, problem)
            return False
        # Alone and still in conflict: another server works on this very execution. Waiting outside of the batch lets
        # both make progress; without `answer` there is no one to come back for.
        if is_conflict and is_alone and requests[0].answer is not None and requests[0].tries < _MOST_TRIES:
            self._postpone(requests[0])
            return False
        # A single decision that failed without a conflict fails for its own reason. A store that is down fails for all.
        if tries == _TRIES or not (is_conflict or len(requests) > 1) or _is_fatal(problem):
            fail(requests, problem)
            return False
        if len(requests) > 1 and (tries > 1 or is_taken or not is_conflict):  # one of them spoils it for all
            await self._one_by_one(requests)
            return False
        return True

    def _postpone(self, request: PendingDecision) -> None:
        """Queue it again after a random moment, so that others, also on other servers, get their turn."""
        # Full jitter, as two servers that wait the same time would only meet again.
        longest_s = min(_FIRST_S * 2**request.tries, _LONGEST_S)
        asyncio.get_running_loop().call_later(random.uniform(0, longest_s), self._queue, request)  # noqa: S311

    def _fetch_then_queue(self, request: PendingDecision, away: ResultNotLoadedError) -> None:
        """It is decided once what it needs has come; the others of the batch go on."""

        async def fetched() -> None:
            if await _fetch_missing(away, [request]):
                self._queue(request)
            else:
                request.resolve_answer()

        task = asyncio.ensure_future(fetched())
        # The event loop keeps weak references to tasks only.
        self._fetches.add(task)
        task.add_done_callback(self._fetches.discard)

    def _perform(self, batch: CommitBatch, commits: Sequence[Commit], requests: list[PendingDecision]) -> None:
        """Perform effects of what is stored. If that fails, the callers get the error; nothing is decided again."""
        try:
            self._effects.perform(batch, commits)
        except Exception as problem:
            fail(requests, problem)

    async def _one_by_one(self, requests: list[PendingDecision]) -> None:
        for request in requests:
            # One that failed in the shared batch already has its answer.
            if request.problem is None:
                await self._commit_batch([request])

    async def _decided(self, batch: CommitBatch, requests: list[PendingDecision]) -> list[PendingDecision]:
        """Make every decision of the batch; returns those that did not raise and were not held back."""
        decided: list[PendingDecision] = []
        held_back: list[PendingDecision] = []
        pending = deque(requests)
        while pending:
            request = pending.popleft()
            if request.subject is not None and batch.event_count(request.subject) >= SHARED_EVENTS:
                await asyncio.sleep(0)  # whoever has come meanwhile is in the queue now, and is not to wait for long
            if self._is_to_wait(request, batch, held_back, pending):
                held_back.append(request)
                continue
            try:
                await request.try_again(batch)
                decided.append(request)
            except Exception as problem:
                # Decisions of this batch that share an execution with the broken one have seen its changes in memory.
                broken = self._undo(batch, request, decided)
                decided = [one for one in decided if one not in broken]
                pending += broken
                if isinstance(problem, DecideAgainError) and request.tries < _MOST_TRIES:
                    pending.append(request)
                elif isinstance(problem, ResultNotLoadedError) and request.tries < _MOST_TRIES:
                    if request.answer is not None:
                        self._fetch_then_queue(request, problem)
                    elif await _fetch_missing(problem, [request]):
                        pending.append(request)
                else:
                    cause = problem.__cause__ if isinstance(problem, DecideAgainError) else None
                    request.fail(cause or problem)
                # Read what `_undo` forgot before the next decision looks at it.
                if request.touched or broken:
                    await self._memory.refresh()
        self._waiting[:0] = [one for one in held_back if one.enqueue()]  # before all that has come since
        return decided

    def _is_to_wait(
        self,
        request: PendingDecision,
        batch: CommitBatch,
        held_back: Sequence[PendingDecision],
        pending: Iterable[PendingDecision],
    ) -> bool:
        """Whether its execution has had its share of this batch, or something waits that was asked for before it."""
        if request.group is not None and any(one.group is request.group for one in held_back):
            return True
        if request.subject is None:
            return False
        events = batch.event_count(request.subject)
        # The bound holds for the first event over it: a single decision may make many events, and is never split.
        if events >= MOST_EVENTS:
            return True
        return events >= SHARED_EVENTS and any(map(request.is_in_the_way_of, chain(pending, self._waiting)))

    def _undo(
        self, batch: CommitBatch, request: PendingDecision, decided: list[PendingDecision]
    ) -> list[PendingDecision]:
        """Forget what a decision touched, and with it the decisions that share an execution with it."""
        spoiled, broken = set(request.touched), list[PendingDecision]()
        # Transitive: a decision that shares an execution with a spoiled one spoils the others that it touched.
        while more := [one for one in decided if one not in broken and not spoiled.isdisjoint(one.touched)]:
            broken += more
            spoiled.update(*(one.touched for one in more))
        batch.drop(spoiled)
        self._memory.forget(spoiled)
        return broken


async def _fetch_missing(away: ResultNotLoadedError, requests: list[PendingDecision]) -> bool:
    """Whether what was lacking has come; else these decisions have failed."""
    try:
        await away.fetch()
    except Exception as problem:
        fail(requests, problem)
        return False
    return True


def _is_fatal(problem: Exception) -> bool:
    """The store itself does not work: there is no use in trying again, or one by one."""
    return isinstance(problem, BackendError) and not isinstance(problem, ConflictError | NotStoredError | UnfitError)
