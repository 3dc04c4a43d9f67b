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
from noetl.control.commit.batch import CommitBatch, Decide, NotStoredError, PendingDecision, fail_all
from noetl.control.commit.effects import Effects
from noetl.control.commit.result_cache import ResultNotLoadedError
from noetl.control.commit.sharing import SharingPolicy
from noetl.engine.commands import Command
from noetl.engine.decision import Decision
from noetl.store.contract import Commit, ConflictError, TakenError

_T = TypeVar("_T")
# Five tries without a pause bound how long one batch can hold up the queue.
_TRIES = 5
# A decision that waits outside of batches, with growing pauses, gives up after thirty tries: at most six seconds of
# pauses. Its caller gets the conflict as an error.
_MOST_TRIES = 30
_FIRST_S, _LONGEST_S = 0.001, 0.2
# Events of one execution in one batch, after which its further reports wait for the next batch. A loop reports
# thousands of iterations at once, and all callers of the batch would wait for them. The number of executions in a
# batch has no limit.
MOST_EVENTS = 256
# The same when another caller waits for the batch to end (P8). A loop alone has larger batches: a flush costs as much
# as some thirty events.
SHARED_EVENTS = 64


# Decisions of a batch that are made without a pause of the event loop.
DECIDED_AT_ONCE = 128


class DecideAgainError(Exception):
    """The cause of an error was removed (a record is in quarantine, an order is laid aside): decide again. `__cause__`
    is the original error."""


class CommitMemory(Protocol):
    """The executions that a batch decides upon: `Decisions`."""

    async def refresh(self) -> None:
        """Read again what was forgotten."""

    async def decide_all(self, commands: Sequence[tuple[str, Command]], batch: CommitBatch) -> list[Decision]:
        """Decide commands, in their order."""

    async def commit(self, batch: CommitBatch) -> list[Commit]:
        """Store all of it in one transaction."""

    def forget(self, execution_ids: Collection[str], *, conflicting: bool = False) -> None:
        """Drop what was decided and not stored. `conflicting`: another server has moved some of these executions."""


class WaitingWorkers(Protocol):
    """Workers that wait for an order while a batch is made: `Polls`."""

    def claims(self) -> Sequence[Decide]:
        """Claims for remote workers, decided after the requests of the batch."""

    async def hand_out(self, batch: CommitBatch) -> None:
        """Claim what the batch made ready, for the worker in this process."""


class GroupCommit:
    """The queue of decisions and the loop that makes, stores and performs them, batch by batch."""

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
        """Decide commands in their order and store them in one transaction: all of them or none."""
        return await self.run(partial(self._memory.decide_all, commands))

    async def run(self, decide: Callable[[CommitBatch], Awaitable[_T]], *, gathers: bool = False) -> _T:
        """Make a decision and store it. After a conflict with another server it is made again from the log. Never call
        this inside a batch: it would wait for itself. `gathers`: more callers are likely at this moment."""
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
        return [request for request in waiting if not request.is_abandoned]

    async def _join(self, decide: Callable[[CommitBatch], Awaitable[_T]]) -> _T:
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._queue(PendingDecision(decide, answer))
        return await answer

    async def decide_each(self, decides: Sequence[tuple[str | None, Decide]]) -> list[Any]:
        """Make several decisions in their order, each on its own; returns the result or the exception of each. Each
        comes with the execution it concerns, if there is one. They share a batch, unless an execution has reached its
        limit of events there; then the remaining decisions are made in the next batch."""
        loop, group = asyncio.get_running_loop(), object()
        requests, answers = [], []
        for subject, decide in decides:
            answers.append(loop.create_future())
            requests.append(PendingDecision(decide, answers[-1], subject=subject, group=group))
        self._queue(*requests)
        return await asyncio.gather(*answers, return_exceptions=True)

    def _queue(self, *requests: PendingDecision) -> None:
        """Add decisions to the queue, and start the commit task if it does not run."""
        for request in requests:
            if request.enqueue():
                self._waiting.append(request)
        if self._waiting and not self._is_busy:
            # Set here and not in the task: a caller that comes before the task runs must queue, not commit by itself.
            self._is_busy = True
            self._go_on()

    async def wait_idle(self) -> None:
        """Return once nothing is under way."""
        while under_way := {*self._fetches, *([self._commit_task] if self._commit_task is not None else ())}:
            await asyncio.wait(under_way)

    def _go_on(self) -> None:
        """A batch has ended: commit the next one, or be idle."""
        if self._waiting:
            self._commit_task = asyncio.ensure_future(self._commit_batches())
        else:
            self._is_busy = False

    async def _commit_batches(self) -> None:
        """The commit task: batch after batch until the queue is empty."""
        requests: list[PendingDecision] = []
        try:
            while self._waiting:
                requests = self._next_batch()
                await self._commit_batch([*requests, *map(PendingDecision, self._waiting_workers.claims())])
                for request in requests:
                    request.resolve_answer()
                if self._waiting:
                    await asyncio.sleep(0)  # callers that are ready by now join the next batch
        except BaseException:  # the process is ending
            # No later batch will answer these requests: cancel them, or their callers wait forever.
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
                # Settled first, performed after: a decision that fails from here on is already stored, and must not be
                # made a second time.
                self._perform(batch, commits, decided)
                break
            except Exception as problem:
                self._memory.forget(batch.touched, conflicting=isinstance(problem, ConflictError))
                # Decisions that broke on their own are settled or postponed. Only the others are tried again.
                requests = decided
                if not await self._tries_again(problem, requests, tries):
                    break
            # Cancelled in the middle of a commit: it is unknown whether it is stored, so memory cannot be trusted.
            except BaseException:
                self._memory.forget(batch.touched)
                raise
            finally:
                # After success, failure and cancellation alike: polls wait for this moment (`Polls`).
                for on_end in batch.on_end:
                    on_end()

    async def _tries_again(self, problem: Exception, requests: list[PendingDecision], tries: int) -> bool:
        """Whether the batch is decided again. If not, its decisions have failed, are queued again, or were decided one
        by one."""
        is_conflict, is_taken = isinstance(problem, ConflictError), isinstance(problem, TakenError)
        is_alone = len(requests) == 1
        if isinstance(problem, ResultNotLoadedError) and tries < _TRIES and await _fetch_missing(problem, requests):
            return True
        # Another caller has the message or the execution id for good. Deciding again would bring the same.
        if is_taken and is_alone:
            fail_all(requests, problem)
            return False
        # Alone and still in conflict: another server works on this very execution. Waiting outside of the batch lets
        # both make progress; without `answer` there is no one to come back for.
        if is_conflict and is_alone and requests[0].answer is not None and requests[0].tries < _MOST_TRIES:
            self._postpone(requests[0])
            return False
        # A single decision that failed without a conflict fails for its own reason. A store that is down fails for all.
        if tries == _TRIES or not (is_conflict or len(requests) > 1) or _is_fatal(problem):
            fail_all(requests, problem)
            return False
        # One decision makes the whole batch fail: made alone, the others succeed.
        if len(requests) > 1 and (tries > 1 or is_taken or not is_conflict):
            await self._one_by_one(requests)
            return False
        return True

    def _postpone(self, request: PendingDecision) -> None:
        """Queue a decision again after a random pause, so that other decisions and other servers make progress."""
        # Full jitter, as two servers that wait the same time would only meet again.
        longest_s = min(_FIRST_S * 2**request.tries, _LONGEST_S)
        asyncio.get_running_loop().call_later(random.uniform(0, longest_s), self._queue, request)  # noqa: S311

    def _fetch_then_queue(self, request: PendingDecision, missing: ResultNotLoadedError) -> None:
        """Make a decision later, when its result has been fetched; the others of the batch go on."""

        async def fetch_and_queue() -> None:
            if await _fetch_missing(missing, [request]):
                self._queue(request)
            else:
                request.resolve_answer()

        task = asyncio.ensure_future(fetch_and_queue())
        # The event loop keeps weak references to tasks only.
        self._fetches.add(task)
        task.add_done_callback(self._fetches.discard)

    def _perform(self, batch: CommitBatch, commits: Sequence[Commit], requests: list[PendingDecision]) -> None:
        """Perform the effects of a stored batch. If that raises, the callers get the error; nothing is decided
        again."""
        try:
            self._effects.perform(batch, commits)
        except Exception as problem:
            fail_all(requests, problem)

    async def _one_by_one(self, requests: list[PendingDecision]) -> None:
        """Make each decision in a batch of its own."""
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
            # A worker may report on a thousand orders at once: other requests are served meanwhile.
            if len(decided) % DECIDED_AT_ONCE == DECIDED_AT_ONCE - 1:
                await asyncio.sleep(0)
            if request.subject is not None and batch.event_count(request.subject) >= SHARED_EVENTS:
                # Lets callers that are ready enter the queue: `_must_wait` has to see them.
                await asyncio.sleep(0)
            if self._must_wait(request, batch, held_back, pending):
                held_back.append(request)
                continue
            try:
                await request.make(batch)
                decided.append(request)
            except Exception as problem:
                # Decisions that share an execution with the failed one have seen its changes in memory.
                undone = self._undo(batch, request, decided)
                decided = [other for other in decided if other not in undone]
                pending += undone
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
                if request.touched or undone:
                    await self._memory.refresh()
        # At the front: these were requested before everything that is in the queue by now.
        self._waiting[:0] = [request for request in held_back if request.enqueue()]
        return decided

    def _must_wait(
        self,
        request: PendingDecision,
        batch: CommitBatch,
        held_back: Sequence[PendingDecision],
        pending: Iterable[PendingDecision],
    ) -> bool:
        """Whether a decision is left for the next batch: its execution has reached its limit of events, or an earlier
        decision of its group was left."""
        if request.group is not None and any(earlier.group is request.group for earlier in held_back):
            return True
        if request.subject is None:
            return False
        events = batch.event_count(request.subject)
        # The bound holds for the first event over it: a single decision may make many events, and is never split.
        if events >= MOST_EVENTS:
            return True
        return events >= SHARED_EVENTS and any(map(request.delays, chain(pending, self._waiting)))

    def _undo(
        self, batch: CommitBatch, request: PendingDecision, decided: list[PendingDecision]
    ) -> list[PendingDecision]:
        """Undo a failed decision and those that share an execution with it; returns the latter, to be made again."""
        spoiled, undone = set(request.touched), list[PendingDecision]()
        # Transitive: undoing a second decision spoils the further executions that it touched.
        while more := [other for other in decided if other not in undone and not spoiled.isdisjoint(other.touched)]:
            undone += more
            spoiled.update(*(other.touched for other in more))
        batch.drop(spoiled)
        self._memory.forget(spoiled)
        return undone


async def _fetch_missing(missing: ResultNotLoadedError, requests: list[PendingDecision]) -> bool:
    """Fetch the result that decisions need. If that fails, the decisions fail, and the answer is False."""
    try:
        await missing.fetch()
    except Exception as problem:
        fail_all(requests, problem)
        return False
    return True


def _is_fatal(problem: Exception) -> bool:
    """Whether the store itself does not work, so that neither another try nor single decisions help."""
    return isinstance(problem, BackendError) and not isinstance(problem, ConflictError | NotStoredError | UnfitError)
