"""Effects: what happens once a batch is stored, and never before (SRV-05).

Wake-ups are sent, claimed orders are handed over, orders that nobody wants are stopped, and listeners hear of every
commit. All of it may be lost in a crash: orders, timers and waits are found again in the log, and doing it twice is
harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from noetl.base.crash_points import crash_point
from noetl.control.claiming.ready_orders import Ready, ReadyOrders
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.loaded_executions import LoadedExecutions
from noetl.control.commit.sharing import SharingPolicy
from noetl.engine.execution import Execution
from noetl.events.envelope import Event
from noetl.store.contract import Commit
from noetl.store.wakeups.contract import Wakeups

Watch = Callable[[Sequence[Event]], None]
Stored = Callable[[Sequence[Commit]], None]
TakenUp = Callable[[Execution], None]
Stop = Callable[[Sequence[str]], None]


class Listeners(msgspec.Struct, frozen=True, kw_only=True):
    """Who hears of what. None of them may wait."""

    watch: Watch | None = None  # the events of every commit, one execution at a time
    stored: tuple[Stored, ...] = ()  # every transaction, with its rows: timers, waits, streams, counters
    taken_up: tuple[TakenUp, ...] = ()  # executions that were read from the log: another process moved or left them
    stop: Stop | None = None  # orders that nobody wants any more, for the worker in this process


class Effects:
    def __init__(
        self,
        loaded: LoadedExecutions,
        ready: ReadyOrders,
        wakeups: Wakeups,
        policy: SharingPolicy,
        listeners: Listeners,
    ) -> None:
        self._loaded, self._ready, self._wakeups, self._policy = loaded, ready, wakeups, policy
        self._listeners = listeners
        self._resumptions: dict[str, asyncio.Event] = {}  # somebody waits for these executions to go on

    def perform(self, batch: CommitBatch, commits: Sequence[Commit]) -> None:
        """Do what is owed now that the batch is stored."""
        listeners = self._listeners
        for commit in commits:
            if self._resumptions:
                self._tell_resumed(self._loaded[commit.execution.execution_id].execution)
            if listeners.watch is not None:
                listeners.watch(commit.events)
        self._notify_of_new_orders()
        for worker, orders in batch.given.items():
            if orders:
                # After the commit: the worker begins at once, and its claim must be in the log by then.
                worker.give(orders)
        if listeners.stop is not None and (stopped := batch.stopped):
            listeners.stop(stopped)
        for execution_id in batch.ended_executions():
            self._loaded[execution_id].ended.set()
        for hear in listeners.stored if commits else ():
            hear(commits)
        # Last, since everything above still looks executions up in memory.
        self._loaded.make_room()

    def _notify_of_new_orders(self) -> None:
        if not self._policy.has_many_workers:
            self.notify_workers()
            return
        # Only new orders: waking for all that are ready would wake every idle worker at every commit.
        fresh = self._ready.take_fresh()
        if fresh:
            crash_point("ring.before")
        self.notify_workers(fresh)  # what nobody took is rung for again by the search for lost work
        if fresh:
            crash_point("ring.after")

    def notify_workers(self, orders: Mapping[str, int] | None = None) -> None:
        """There is work: so many orders by pool, or all that this process knows."""
        for pool, number in (self._ready.counts if orders is None else orders).items():
            self._wakeups.notify_workers(number, pool=pool)

    def offer_again(self, orders: Iterable[Ready]) -> None:
        """These waited for something that is here now."""
        for ready in orders:
            self._ready.add(ready)
        self.notify_workers()

    def note_read(self, execution: Execution) -> None:
        """Another process may have moved this execution: it was read from the log."""
        if not execution.lifecycle.paused:
            self._ready.offer_aside(execution.execution_id)
        self._tell_resumed(execution)
        self.note_taken_up(execution)

    def note_taken_up(self, execution: Execution) -> None:
        for hear in self._listeners.taken_up:
            hear(execution)

    # who waits for a pause to end

    def resumption(self, execution_id: str) -> asyncio.Event:
        """Set once the execution goes on."""
        return self._resumptions.setdefault(execution_id, asyncio.Event())

    def is_resumption_awaited(self, execution_id: str) -> bool:
        return execution_id in self._resumptions

    def _tell_resumed(self, execution: Execution) -> None:
        if not execution.holds and (waiting := self._resumptions.pop(execution.execution_id, None)):
            waiting.set()
