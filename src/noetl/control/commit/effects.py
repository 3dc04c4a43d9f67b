"""Effects: what happens once a batch is stored, and never before (SRV-05).

Wake-ups are sent, claimed orders are handed over, ended orders are stopped, and listeners are called. A crash may lose
any of these effects: orders, timers and waits are found again in the store, and performing an effect twice is harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from noetl.base.crash_points import crash_point
from noetl.control.claiming.ready_orders import ReadyOrder, ReadyOrders
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.loaded_executions import LoadedExecutions
from noetl.control.commit.sharing import SharingPolicy
from noetl.engine.execution import Execution
from noetl.events.envelope import Event
from noetl.store.contract import Commit
from noetl.store.wakeups import Wakeups

Watch = Callable[[Sequence[Event]], None]
Stored = Callable[[Sequence[Commit]], None]
TakenUp = Callable[[Execution], None]
Stop = Callable[[Sequence[str]], None]


class Listeners(msgspec.Struct, frozen=True, kw_only=True):
    """Callbacks of the effects. None of them may block: they run on the event loop between two batches."""

    watch: Watch | None = None  # called with the events of every commit, one execution at a time
    stored: tuple[Stored, ...] = ()  # called with every transaction: timers, waits, streams, counters
    taken_up: tuple[TakenUp, ...] = ()  # called with executions read from the log: another process moved or left them
    stop: Stop | None = None  # called with ended orders that the worker in this process may still run


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
        self._resumptions: dict[str, asyncio.Event] = {}  # by paused execution: set when it goes on

    def perform(self, batch: CommitBatch, commits: Sequence[Commit]) -> None:
        """Perform the effects of a stored batch."""
        listeners = self._listeners
        for commit in commits:
            if self._resumptions:
                self._notify_resumed(self._loaded[commit.execution.execution_id].execution)
            if listeners.watch is not None:
                listeners.watch(commit.events)
        self._notify_of_new_orders()
        for worker, orders in batch.claimed_for.items():
            if orders:
                # After the commit: the worker begins at once, and its claim must be in the log by then.
                worker.give(orders)
        if listeners.stop is not None and (stopped := batch.stopped):
            listeners.stop(stopped)
        for execution_id in batch.ended_executions():
            self._loaded[execution_id].ended.set()
        for on_stored in listeners.stored if commits else ():
            on_stored(commits)
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
        # A wake-up may be lost. The search for lost work sends another for orders that are still ready then.
        self.notify_workers(fresh)
        if fresh:
            crash_point("ring.after")

    def notify_workers(self, orders: Mapping[str, int] | None = None) -> None:
        """Wake workers for this number of orders by pool; by default for all orders that are ready in memory."""
        for pool, number in (self._ready.counts if orders is None else orders).items():
            self._wakeups.notify_workers(number, pool=pool)

    def offer_again(self, orders: Iterable[ReadyOrder]) -> None:
        """Make orders ready again that waited for a stored result."""
        for ready in orders:
            self._ready.add(ready)
        self.notify_workers()

    def note_read(self, execution: Execution) -> None:
        """An execution was read from the log: another process may have resumed or moved it."""
        if not execution.lifecycle.paused:
            self._ready.offer_aside(execution.execution_id)
        self._notify_resumed(execution)
        self.note_taken_up(execution)

    def note_taken_up(self, execution: Execution) -> None:
        for on_taken_up in self._listeners.taken_up:
            on_taken_up(execution)

    # the end of a pause

    def resumption(self, execution_id: str) -> asyncio.Event:
        """An event that is set once the paused execution goes on."""
        return self._resumptions.setdefault(execution_id, asyncio.Event())

    def is_resumption_awaited(self, execution_id: str) -> bool:
        return execution_id in self._resumptions

    def _notify_resumed(self, execution: Execution) -> None:
        if not execution.holds and (waiting := self._resumptions.pop(execution.execution_id, None)):
            waiting.set()
