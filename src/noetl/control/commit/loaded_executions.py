"""Loaded executions: those kept in memory, with their plans, as far as the log has them (design.md §3).

Any server may move any execution. One that another server has moved is caught up by the tail of its log. Where
memory went ahead of the log because a commit failed, the execution goes back to its snapshot first (see
`snapshots`). Without a snapshot it is read from the beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from noetl.base.errors import RefusedError, ToolError, UnreadableError
from noetl.control.commit.memory_use import MemoryUse, weight_of, weight_of_sizes
from noetl.control.commit.result_cache import ResultCache, ResultNotLoadedError
from noetl.control.commit.sharing import SharingPolicy
from noetl.control.commit.snapshots import Snapshot, mutable_copy
from noetl.engine.evolve import evolve, replay
from noetl.engine.execution import Execution
from noetl.engine.plan import Plan
from noetl.events.envelope import Event, with_stored_values
from noetl.net.net import Net, from_json
from noetl.store.contract import ExecutionRow, Store

MOST = 1_000  # plans kept in memory; the store has every net


class Plans:
    """Nets prepared for deciding, each once (performance.md §2)."""

    def __init__(self, store: Store, values: ResultCache) -> None:
        self._store, self._values = store, values
        # By the content hash of the net: executions of the same version share one plan.
        self._plans: dict[str, Plan] = {}
        self._latest: tuple[Net, Plan] | None = None  # of the last start; the next one is often of the same net

    def of(self, net: Net) -> Plan:
        # By identity: hashing the net would cost more than the start of a small execution.
        if self._latest is None or self._latest[0] is not net:
            self._latest = net, self._keep(net)
        return self._latest[1]

    async def get(self, net_hash: str) -> Plan:
        """The plan of a net that the store has."""
        if net_hash not in self._plans:
            self._keep(from_json(await self._store.net(net_hash)))
        return self._plans[net_hash]

    def _keep(self, net: Net) -> Plan:
        plan = Plan(net, load=self._values.load, keep=self._values.keep)
        if plan.net_hash in self._plans:
            return self._plans[plan.net_hash]
        if len(self._plans) >= MOST:
            del self._plans[next(iter(self._plans))]  # the oldest; loaded executions keep their own reference
        self._plans[plan.net_hash] = plan
        return plan


class Ending(asyncio.Event):
    """The end of an execution, and the number of callers that wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0

    async def wait_counted(self) -> None:
        """Wait for the end. The caller is counted meanwhile, so that the execution stays in memory."""
        self.waiting += 1
        try:
            await self.wait()
        finally:
            self.waiting -= 1


class DecidedEvents(msgspec.Struct):
    """The events that a batch has for one execution, in order. The four lists have one entry for each event."""

    # With large values restored: the form in which `evolve` read them and in which a snapshot replays them.
    events: list[Event] = []
    # Sizes of the encoded payloads before large values were set apart: the memory that the events use.
    sizes_bytes: list[int] = []
    # As the log has it: a large value is a reference.
    stored: list[Event] = []
    # The encoded payload of `stored`, so that no store encodes it a second time.
    bodies: list[bytes] = []


class LoadedExecution(msgspec.Struct):
    """An execution kept in memory."""

    plan: Plan
    execution: Execution
    created_at: float
    # The last `seq` that the store has. `execution.log.seq` is ahead of it while a batch is being decided.
    committed: int
    # The same object for as long as a caller waits for it, also when the execution is read again.
    ended: Ending
    # When `committed` was last known to be the end of the log: other servers may have added to it since.
    seen_at: float = 0.0
    # The state to return to when a decision could not be stored. None if the policy keeps no snapshots.
    snapshot: Snapshot | None = None

    @property
    def is_clean(self) -> bool:
        """Whether memory is as far as the log, as far as this process knows."""
        return 0 < self.committed == self.execution.log.seq


class LoadedExecutions:
    """The executions in memory. One whose commit failed is stale: memory differs from the log, so it is read again
    before its next use. The policy bounds their number and size; those with waiting callers stay."""

    def __init__(
        self,
        store: Store,
        values: ResultCache,
        policy: SharingPolicy,
        watch: Callable[[Sequence[Event]], None] | None = None,
    ) -> None:
        self._store, self._values, self._policy = store, values, policy
        self._memory_use = MemoryUse(policy.memory_bounds) if policy.memory_bounds is not None else None
        # Stale ones stay in it: callers hold on to their `ended`, and the snapshot saves reading the log from its
        # beginning.
        self._loaded: dict[str, LoadedExecution] = {}
        # Memory is ahead of the log, or cannot be compared with it. Nothing is decided upon these before they are read
        # again.
        self._stale: set[str] = set()
        self._contended: set[str] = set()  # moved by another server before, which may happen again at any moment
        # By parent; the inner dict is an ordered set, so that children are paused and cancelled in the order they
        # began.
        self._children: dict[str, dict[str, None]] = {}
        self.plans = Plans(store, values)
        self._on_followed = watch if policy.reports_followed_events else None  # called with events of other processes

    def __getitem__(self, execution_id: str) -> LoadedExecution:
        return self._loaded[execution_id]

    def get(self, execution_id: str) -> LoadedExecution | None:
        """The execution in memory, stale or not."""
        return self._loaded.get(execution_id)

    def current(self, execution_id: str) -> LoadedExecution | None:
        """The execution, if memory can be trusted without a look at the log: no other process moves it, and none of its
        commits has failed."""
        if self._policy.shares_executions or execution_id in self._stale:
            return None
        return self._loaded.get(execution_id)

    def __contains__(self, execution_id: str) -> bool:
        return execution_id in self._loaded

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._loaded))

    def __len__(self) -> int:
        return len(self._loaded)

    @property
    def stale(self) -> list[str]:
        return list(self._stale)

    def is_stale(self, execution_id: str) -> bool:
        return execution_id in self._stale

    def begin(self, net: Net, execution_id: str, trace_id: str, now: float, parent: str | None) -> LoadedExecution:
        """A new execution, of which nothing is stored yet."""
        execution = Execution(execution_id=execution_id, trace_id=trace_id)
        snapshot = Snapshot(mutable_copy(execution)) if self._policy.keeps_snapshots else None
        return self._keep(LoadedExecution(self.plans.of(net), execution, now, 0, Ending(), now, snapshot), parent)

    async def load(self, execution_id: str, now: float = 0.0) -> LoadedExecution:
        """The execution from memory, else from the log."""
        loaded = self._loaded.get(execution_id)
        if loaded is not None and execution_id not in self._stale:
            # Most recently used: the bound evicts from the other end.
            if self._memory_use is not None:
                self._memory_use.use(execution_id)
            return loaded
        row = await self._store.execution(execution_id)
        if row is None:
            raise RefusedError(f"there is no execution {execution_id} in this store")
        execution, snapshot, weight = await self._read(row, loaded)
        plan = await self.plans.get(execution.origin.net_hash)
        # The same object: callers already wait for this end, and a new one would never wake them.
        ended = loaded.ended if loaded else Ending()
        self._stale.discard(execution_id)
        # Another server may have ended it. Callers that wait here learn it only by this read.
        if not execution.is_open:
            ended.set()
        loaded = LoadedExecution(plan, execution, row.created_at, execution.log.seq, ended, now, snapshot)
        return self._keep(loaded, execution.origin.parent_execution_id, weight)

    async def _read(self, row: ExecutionRow, loaded: LoadedExecution | None) -> tuple[Execution, Snapshot | None, int]:
        """The execution as the log has it, its snapshot, and the weight of the events that were read. With a snapshot
        only the tail of the log is read."""
        execution_id = row.execution_id
        # The snapshot holds everything up to `committed`, so only the tail is read, however long the history is.
        after = loaded.committed if loaded is not None and loaded.snapshot is not None else 0
        events = self._with_stored_values(await self._store.events(execution_id, after=after))
        weight = weight_of(events) if self._memory_use is not None else 0
        try:
            if loaded is not None and loaded.snapshot is not None:
                # Detached first: if replaying raises half-way, the snapshot is damaged and must not be used again.
                snapshot, loaded.snapshot = loaded.snapshot, None
                snapshot.add(events)
                return snapshot.execution(), snapshot, weight
            execution = replay(execution_id, row.trace_id, events)
            return execution, Snapshot(mutable_copy(execution)) if self._policy.keeps_snapshots else None, weight
        except Exception as problem:
            raise UnreadableError(f"execution {execution_id} cannot be read: {problem!r}") from problem

    def _with_stored_values(self, events: list[Event]) -> list[Event]:
        """The events with the values that the log only refers to. UnreadableError when one of them is gone."""
        try:
            whole = [with_stored_values(event, self._values.load) for event in events]
        except ToolError as problem:
            what = f"execution {events[0].execution_id} cannot be read"
            raise UnreadableError(f"{what}: {problem.message} ({problem.kind})") from problem
        # A value that is not in memory was replaced by a placeholder above. Raise before anything is decided upon it.
        self._values.check()
        return whole

    def stored(self, execution_id: str, decided: DecidedEvents, seq: int, now: float) -> None:
        """The decided events of an execution are in the log now."""
        loaded = self._loaded[execution_id]
        loaded.committed, loaded.seen_at = seq, now
        if self._memory_use is not None:
            self._grow(loaded, weight_of_sizes(decided.sizes_bytes))
        if loaded.snapshot is not None:
            loaded.snapshot.add(decided.events)

    def possibly_moved(self, execution_ids: Iterable[str], now: float) -> list[str]:
        """Those in memory that others may have moved since they were compared with the log."""
        may_have_moved, contended = self._policy.may_have_moved, self._contended
        return [
            execution_id
            for execution_id in execution_ids
            if (loaded := self._loaded.get(execution_id)) is not None
            and may_have_moved(loaded.seen_at, now, is_contended=execution_id in contended)
        ]

    async def catch_up(self, execution_ids: Collection[str], now: float) -> list[str]:
        """Apply what other processes have recorded for these, from the tail of the log; returns those that had moved.
        Executions with decisions in the current batch are skipped: their commit detects a conflict."""
        clean = [
            execution_id
            for execution_id in execution_ids
            if execution_id not in self._stale and self._loaded[execution_id].is_clean
        ]
        if not clean:
            return []
        # One query for all of them; events are read only for those that moved.
        positions = await self._store.positions(clean)
        moved = []
        for execution_id in clean:
            loaded = self._loaded[execution_id]
            loaded.seen_at = now
            # Also None, when the execution was deleted meanwhile: then `_follow` reads no events and nothing changes.
            if positions.get(execution_id) != loaded.committed:
                try:
                    await self._follow(loaded)
                except ResultNotLoadedError:
                    # Its next use fetches the result first. The other executions do not wait for that.
                    self._stale.add(execution_id)
                else:
                    moved.append(execution_id)
        return moved

    async def _follow(self, loaded: LoadedExecution) -> None:
        """Apply the tail of the log to an execution in memory."""
        execution = loaded.execution
        # From now on every load asks the store first: a decision upon old state would only lose its commit.
        self._contended.add(execution.execution_id)
        tail = self._with_stored_values(await self._store.events(execution.execution_id, after=loaded.committed))
        try:
            # In place: the execution is clean, so the tail fits without the snapshot.
            for event in tail:
                evolve(execution, event)
        except Exception as problem:
            self._stale.add(execution.execution_id)
            raise UnreadableError(f"execution {execution.execution_id} cannot be read: {problem!r}") from problem
        loaded.committed = execution.log.seq
        self._grow(loaded, weight_of(tail) if self._memory_use is not None else 0)
        if loaded.snapshot is not None:
            loaded.snapshot.add(tail)
        if self._on_followed is not None:
            self._on_followed(tail)
        if not execution.is_open:
            loaded.ended.set()

    def children(self, execution_id: str) -> list[str]:
        """The open children of an execution that are in memory."""
        children = self._children.get(execution_id, ())
        return [child for child in children if child in self._loaded and self._loaded[child].execution.is_open]

    def mark_stale(self, execution_ids: Iterable[str], *, conflicting: bool = False) -> None:
        """A decision on these was not stored: their next use reads the log."""
        for execution_id in execution_ids:
            loaded = self._loaded.get(execution_id)
            if loaded is None:
                continue
            # Nothing of it is stored if `committed` is 0, so there is nothing to read again.
            if loaded.committed:
                self._stale.add(execution_id)
                if conflicting:
                    self._contended.add(execution_id)
            else:
                self.drop(execution_id)

    def drop(self, execution_id: str) -> None:
        """Remove an execution from memory; its next use reads it from the log."""
        loaded = self._loaded.pop(execution_id, None)
        if self._memory_use is not None:
            self._memory_use.drop(execution_id)
        self._stale.discard(execution_id)
        self._contended.discard(execution_id)
        if loaded is not None and (parent := loaded.execution.origin.parent_execution_id) is not None:
            self._children.get(parent, {}).pop(execution_id, None)
        self._children.pop(execution_id, None)

    def make_room(self) -> list[str]:
        """Evict executions until the bounds hold again; returns those evicted."""
        if self._memory_use is None:
            return []
        evicted = self._memory_use.evictions(self._has_to_stay)
        for execution_id in evicted:
            self.drop(execution_id)
        return evicted

    def _has_to_stay(self, execution_id: str) -> bool:
        loaded = self._loaded.get(execution_id)
        # A stale one stays until it is read again: only that offers its orders to workers once more.
        return loaded is not None and (bool(loaded.ended.waiting) or execution_id in self._stale)

    def _grow(self, loaded: LoadedExecution, weight: int) -> None:
        if self._memory_use is not None:
            execution = loaded.execution
            self._memory_use.add(execution.execution_id, weight, is_over=not execution.is_open)

    def _keep(self, loaded: LoadedExecution, parent: str | None, weight: int = 0) -> LoadedExecution:
        execution_id = loaded.execution.execution_id
        self._loaded[execution_id] = loaded
        if self._memory_use is not None:
            self._memory_use.add(execution_id, weight, is_over=not loaded.execution.is_open)
        if parent is not None:
            self._children.setdefault(parent, {})[execution_id] = None
        return loaded
