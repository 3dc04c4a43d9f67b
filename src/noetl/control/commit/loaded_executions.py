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
from noetl.control.commit.memory_use import KeptBytes, weight_of, weight_of_sizes
from noetl.control.commit.sharing import SharingPolicy
from noetl.control.commit.snapshots import Snapshot, copied
from noetl.control.results.result_cache import ResultCache, ResultNotLoadedError
from noetl.engine.evolve import evolve, replayed
from noetl.engine.execution import Execution
from noetl.engine.plan import Plan
from noetl.events.envelope import Event, with_stored_values
from noetl.net.net import Net, from_json
from noetl.store.contract import ExecutionRow, Store

# Plans: compiled playbooks made ready to be decided with, once for each net (performance.md §2).
MOST = 1_000  # nets kept ready; the store has all of them


class Plans:
    def __init__(self, store: Store, values: ResultCache) -> None:
        self._store, self._values = store, values
        # By the content hash of the net: executions of the same version share one plan, whoever registered it.
        self._plans: dict[str, Plan] = {}
        self._latest: tuple[Net, Plan] | None = None  # a crowd of executions of one net makes one plan

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
            del self._plans[next(iter(self._plans))]  # the oldest; who uses it has it in hand
        self._plans[plan.net_hash] = plan
        return plan


class Ending(asyncio.Event):
    """The end of an execution, and how many wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0

    async def wait_counted(self) -> None:
        """Wait for it, and be counted meanwhile: the execution then stays in memory."""
        self.waiting += 1
        try:
            await self.wait()
        finally:
            self.waiting -= 1


class DecidedEvents(msgspec.Struct):
    """What was decided upon an execution, in order. The four lists have one entry for each event."""

    # Whole, with large values in place: what `evolve` has seen, and what a snapshot replays.
    events: list[Event] = []
    # Of the encoded payload before large values were set apart: what the event costs in memory.
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
    # The last `seq` that the store has. `execution.seq` is ahead of it while a batch is being decided.
    committed: int
    # The same object for as long as somebody waits for it, also when the execution is read again.
    ended: Ending
    # When `committed` was last known to be the end of the log: other servers may have added to it since.
    seen_at: float = 0.0
    # Where to go back to when a decision could not be stored. None where the policy keeps no snapshots.
    base: Snapshot | None = None

    @property
    def is_clean(self) -> bool:
        """Whether memory is as far as the log, as far as this process knows."""
        return 0 < self.committed == self.execution.seq


class LoadedExecutions:
    """One whose commit failed is stale: what memory holds is not what the log tells, so it is read again. No more are
    kept than the bounds of the policy say, and those that somebody waits for."""

    def __init__(
        self,
        store: Store,
        values: ResultCache,
        policy: SharingPolicy,
        watch: Callable[[Sequence[Event]], None] | None = None,
    ) -> None:
        self._store, self._values, self._policy = store, values, policy
        self._kept = KeptBytes(policy.memory_bounds) if policy.memory_bounds is not None else None
        # Stale ones stay in it: callers hold on to their `ended`, and the snapshot saves reading the log from its
        # beginning.
        self._loaded: dict[str, LoadedExecution] = {}
        # Memory is ahead of the log, or cannot be compared with it. Nothing is decided upon these before they are read
        # again.
        self._stale: set[str] = set()
        self._contended: set[str] = set()  # others have moved these as well: it may happen again any moment
        # By parent; the inner dict is an ordered set, so that children are paused and cancelled in the order they
        # began.
        self._children: dict[str, dict[str, None]] = {}
        self.plans = Plans(store, values)
        self._followed = watch if policy.tells_followed_events else None  # hears what others have recorded meanwhile

    def __getitem__(self, execution_id: str) -> LoadedExecution:
        return self._loaded[execution_id]

    def get(self, execution_id: str) -> LoadedExecution | None:
        """As memory has it, stale or not."""
        return self._loaded.get(execution_id)

    def at_hand(self, execution_id: str) -> LoadedExecution | None:
        """The execution, where memory is as good as the log: nobody else moves it, and no commit of it has failed."""
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
        base = (
            Snapshot(Execution(execution_id=execution_id, trace_id=trace_id)) if self._policy.keeps_snapshots else None
        )
        return self._keep(LoadedExecution(self.plans.of(net), execution, now, 0, Ending(), now, base), parent)

    async def load(self, execution_id: str, now: float = 0.0) -> LoadedExecution:
        """The execution as memory has it, else as the log tells it."""
        loaded = self._loaded.get(execution_id)
        if loaded is not None and execution_id not in self._stale:
            # Most recently used: the bound evicts from the other end.
            if self._kept is not None:
                self._kept.use(execution_id)
            return loaded
        row = await self._store.execution(execution_id)
        if row is None:
            raise RefusedError(f"there is no execution {execution_id} in this store")
        execution, base, weight = await self._read(row, loaded)
        plan = await self.plans.get(execution.origin.net_hash)
        # The same object: callers already wait for this end, and a new one would never wake them.
        ended = loaded.ended if loaded else Ending()
        self._stale.discard(execution_id)
        # Another server may have ended it. Who waits here is woken by reading the log only.
        if not execution.is_open:
            ended.set()
        loaded = LoadedExecution(plan, execution, row.created_at, execution.seq, ended, now, base)
        return self._keep(loaded, execution.origin.parent_execution_id, weight)

    async def _read(self, row: ExecutionRow, loaded: LoadedExecution | None) -> tuple[Execution, Snapshot | None, int]:
        """The execution as the log has it, and by how much it has grown: by the tail, where there is a base to go on
        from."""
        execution_id = row.execution_id
        # The snapshot holds everything up to `committed`, so only the tail is read, however long the history is.
        after = loaded.committed if loaded is not None and loaded.base is not None else 0
        events = self._with_stored_values(await self._store.events(execution_id, after=after))
        weight = weight_of(events) if self._kept is not None else 0
        try:
            if loaded is not None and loaded.base is not None:
                base, loaded.base = loaded.base, None  # should anything break from here on, it is of no use any more
                base.add(events)
                return base.execution(), base, weight
            execution = replayed(execution_id, row.trace_id, events)
            return execution, Snapshot(copied(execution)) if self._policy.keeps_snapshots else None, weight
        except Exception as problem:
            raise UnreadableError(f"execution {execution_id} cannot be read: {problem!r}") from problem

    def _with_stored_values(self, events: list[Event]) -> list[Event]:
        """The events with what the log only refers to. UnreadableError where that is gone."""
        try:
            told = [with_stored_values(event, self._values.load) for event in events]
        except ToolError as problem:
            what = f"execution {events[0].execution_id} cannot be read"
            raise UnreadableError(f"{what}: {problem.message} ({problem.kind})") from problem
        # A value that could not be loaded was replaced by a placeholder above. Raise before anybody decides upon it.
        self._values.check()
        return told

    def stored(self, execution_id: str, decided: DecidedEvents, seq: int, now: float) -> None:
        """What was decided upon it is in the log."""
        loaded = self._loaded[execution_id]
        loaded.committed, loaded.seen_at = seq, now
        if self._kept is not None:
            self._grow(loaded, weight_of_sizes(decided.sizes_bytes))
        if loaded.base is not None:
            loaded.base.add(decided.events)

    def possibly_moved(self, execution_ids: Iterable[str], now: float) -> list[str]:
        """Those in memory that others may have moved since they were compared with the log."""
        may_have_moved, contended = self._policy.may_have_moved, self._contended
        return [
            one
            for one in execution_ids
            if (loaded := self._loaded.get(one)) is not None
            and may_have_moved(loaded.seen_at, now, is_contended=one in contended)
        ]

    async def catch_up(self, execution_ids: Collection[str], now: float) -> list[str]:
        """Follow what others have decided upon these, by the tail of the log; gives those that had moved. Not those
        that are being decided upon: whether they had moved, the commit will show."""
        clean = [one for one in execution_ids if one not in self._stale and self._loaded[one].is_clean]
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
                    self._stale.add(execution_id)  # whoever wants it waits for what it refers to; the others do not
                else:
                    moved.append(execution_id)
        return moved

    async def _follow(self, loaded: LoadedExecution) -> None:
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
        loaded.committed = execution.seq
        self._grow(loaded, weight_of(tail) if self._kept is not None else 0)
        if loaded.base is not None:
            loaded.base.add(tail)
        if self._followed is not None:
            self._followed(tail)
        if not execution.is_open:
            loaded.ended.set()

    def children(self, execution_id: str) -> list[str]:
        """The open children of an execution."""
        found = self._children.get(execution_id, ())
        return [child for child in found if child in self._loaded and self._loaded[child].execution.is_open]

    def mark_stale(self, execution_ids: Iterable[str], *, conflicting: bool = False) -> None:
        """Something was decided and not stored: the next use reads the log."""
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
                self.drop(execution_id)  # it never began

    def drop(self, execution_id: str) -> None:
        """Nobody asks for it any more; should somebody, the log has it."""
        loaded = self._loaded.pop(execution_id, None)
        if self._kept is not None:
            self._kept.drop(execution_id)
        self._stale.discard(execution_id)
        self._contended.discard(execution_id)
        if loaded is not None and (parent := loaded.execution.origin.parent_execution_id) is not None:
            self._children.get(parent, {}).pop(execution_id, None)
        self._children.pop(execution_id, None)

    def make_room(self) -> list[str]:
        """Keep no more than are allowed: what is over goes first, then what was used longest ago, unless somebody waits
        for its end."""
        if self._kept is None:
            return []
        gone = self._kept.leaving(self._has_to_stay)
        for execution_id in gone:
            self.drop(execution_id)
        return gone

    def _has_to_stay(self, execution_id: str) -> bool:
        loaded = self._loaded.get(execution_id)
        # A stale one stays until it is read again: only that offers its orders to workers once more.
        return loaded is not None and (bool(loaded.ended.waiting) or execution_id in self._stale)

    def _grow(self, loaded: LoadedExecution, weight: int) -> None:
        if self._kept is not None:
            execution = loaded.execution
            self._kept.add(execution.execution_id, weight, is_over=not execution.is_open)

    def _keep(self, loaded: LoadedExecution, parent: str | None, weight: int = 0) -> LoadedExecution:
        execution_id = loaded.execution.execution_id
        self._loaded[execution_id] = loaded
        if self._kept is not None:
            self._kept.add(execution_id, weight, is_over=not loaded.execution.is_open)
        if parent is not None:
            self._children.setdefault(parent, {})[execution_id] = None
        return loaded
