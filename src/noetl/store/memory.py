"""A store in memory: for tests, and for runs that need not outlive their process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Unpack

import msgspec

from noetl.base.errors import AbsentError
from noetl.base.ids import positional
from noetl.events.envelope import Event, encode_payload
from noetl.events.waits import TimerScheduled
from noetl.store import contract, installation
from noetl.store.audit import Audit, MemoryAudit
from noetl.store.human_tasks import MemoryTasks
from noetl.store.inspection import derived_rows
from noetl.store.notices import MemoryNotices
from noetl.store.row_codecs import checksums_in, has_labels, holds_text
from noetl.store.waits import MemoryRequests, MemoryWaits, Requests


class MemoryStore:
    """Keeps every promise of the contract, except that its data ends with the process."""

    patience_s = 0.0

    def __init__(self) -> None:
        self._events: dict[str, list[Event]] = {}
        self._event_ids: dict[str, set[str]] = {}
        self._executions: dict[str, contract.ExecutionRow] = {}
        self._orders: dict[str, contract.OrderRow] = {}
        self._nets: dict[str, bytes] = {}
        self._moved: dict[str, int] = {}  # by execution, the number of its last commit
        self._moves = 0
        self.credentials: installation.CredentialRows = installation.MemoryCredentials()
        self.catalog: installation.Catalog = installation.MemoryCatalog(self._nets)
        self.requests: Requests = MemoryRequests()
        self.waits = MemoryWaits()
        self.tasks = MemoryTasks()
        self.key_values: installation.KeyValues = installation.MemoryKeyValues()
        self.audit: Audit = MemoryAudit()
        self.notices = MemoryNotices()

    async def commit(self, commits: Sequence[contract.Commit]) -> None:
        for commit in commits:
            self._check(commit)
        # Everything is checked before anything is changed: there is no rollback here, and nothing awaits in between.
        self._check_room(commits)
        for commit in commits:
            execution_id = commit.execution.execution_id
            self._events.setdefault(execution_id, []).extend(commit.events)
            self._event_ids.setdefault(execution_id, set()).update(_named_event_ids(commit))
            self._executions[execution_id] = commit.execution
            # Counted by commit: `moved` returns what came after a number that the caller has seen.
            self._moves += 1
            self._moved[execution_id] = self._moves
            if commit.net is not None:
                self._nets[commit.execution.net_hash] = commit.net
            for order in commit.orders:
                self._orders[order.order_id] = _in_its_pool(order, self._orders.get(order.order_id))
            self.waits.write(commit.waits, commit.closed_waits, commit.taken_messages, execution_id)
            self.tasks.write(commit.tasks)
            self.notices.write(commit.notices)

    def _check(self, commit: contract.Commit) -> None:
        execution_id = commit.execution.execution_id
        last = len(self._events.get(execution_id, ()))
        if commit.after == 0 and last > 0:
            raise contract.TakenError(f"execution {execution_id} exists already")
        if last != commit.after or any(e.seq != last + n for n, e in enumerate(commit.events, 1)):
            raise contract.ConflictError(f"execution {execution_id} is at event {last}, not at {commit.after}")
        named = _named_event_ids(commit)
        # An id in the form of a position, of another event than the one at that position.
        is_position = any(one.startswith(f"{execution_id}/") for one in named)
        if (
            is_position
            or len(set(named)) != len(named)
            or not self._event_ids.get(execution_id, set()).isdisjoint(named)
        ):
            raise contract.ConflictError(f"an event of execution {execution_id} is stored already")
        for order in commit.orders:
            held = self._orders.get(order.order_id)
            if held is not None and not _may_follow(held, order):
                raise contract.ConflictError(f"order {order.order_id} is held under epoch {held.lease_epoch}")
        for message_id in commit.taken_messages:
            if self.waits.is_taken(message_id):
                raise contract.TakenError(f"message {message_id} was delivered to another wait, or removed")

    def _check_room(self, commits: Sequence[contract.Commit]) -> None:
        """ConflictError if a pool would be over its capacity after all of these commits."""
        rooms = {room for commit in commits for room in commit.room}
        if not rooms:
            return
        # With the orders of these commits, since two claims of one batch may fill a pool together.
        orders = self._orders | {
            order.order_id: _in_its_pool(order, self._orders.get(order.order_id))
            for commit in commits
            for order in commit.orders
        }
        for room in rooms:
            if sum(_is_held(order, room.now) for order in orders.values() if order.pool == room.pool) > room.capacity:
                raise contract.ConflictError(f'pool "{room.pool}" is full: {room.capacity} orders of it are held')

    async def events(
        self, execution_id: str, *, after: int = 0, only: contract.EventFilter | None = None
    ) -> list[Event]:
        events = self._events.get(execution_id, [])[after:]
        return events if only is None else _filtered_events(events, only)

    async def execution(self, execution_id: str) -> contract.ExecutionRow | None:
        return self._executions.get(execution_id)

    async def positions(self, execution_ids: Collection[str]) -> dict[str, int]:
        return {one: self._executions[one].last_seq for one in execution_ids if one in self._executions}

    async def open_among(self, execution_ids: Collection[str]) -> set[str]:
        rows = self._executions
        return {one for one in execution_ids if one in rows and rows[one].finished_at is None}

    async def executions(
        self, *, limit: int = 50, beyond: str | None = None, **wanted: Unpack[contract.ExecutionQuery]
    ) -> list[contract.ExecutionRow]:
        path, text, labels = wanted.get("path"), wanted.get("text"), wanted.get("labels")
        since, until = wanted.get("since"), wanted.get("until")
        error, step = wanted.get("error"), wanted.get("step")
        newest = sorted(self._executions.values(), key=_age)
        last = self._executions.get(beyond) if beyond is not None else None
        found = [
            row
            for row in newest
            if wanted.get("status") in (None, row.status)
            and (path is None or fnmatchcase(row.path, path))
            and (last is None or _age(row) > _age(last))
            and (since is None or row.created_at >= since)
            and (until is None or row.created_at < until)
            and (text is None or holds_text(row, text))
            and (error is None or (row.summary is not None and row.summary.error == error))
            and (step is None or (row.summary is not None and row.summary.step == step))
            and (not labels or has_labels(self._nets.get(row.net_hash), labels))
        ]
        return found[:limit]

    async def moved(self, since: str | None) -> contract.MovedExecutions:
        if since is None:
            return contract.MovedExecutions(str(self._moves))
        after = int(since) if since.isdecimal() else 0
        return contract.MovedExecutions(
            str(self._moves), {one: self._executions[one].last_seq for one, at in self._moved.items() if at > after}
        )

    async def registered(self, path: str) -> set[str] | None:
        return {row.net_hash for row in await self.catalog.versions(path)}

    async def children(self, execution_id: str) -> list[contract.ExecutionRow]:
        rows = [row for row in self._executions.values() if row.parent_execution_id == execution_id]
        return sorted(rows, key=lambda row: (row.created_at, row.execution_id))

    async def tally(self) -> dict[str, int]:
        return dict(Counter(row.status for row in self._executions.values()))

    async def begin_with(self, prefix: str, *, limit: int = 10) -> list[str]:
        return sorted(one for one in self._executions if one.startswith(prefix))[:limit]

    async def orders(self, execution_id: str) -> list[contract.OrderRow]:
        return [
            order
            for order in self._orders.values()
            if order.execution_id == execution_id and order.state is not contract.OrderState.CLOSED
        ]

    async def claimable(
        self, *, now: float, limit: int, pools: Collection[str] | None = None
    ) -> list[contract.OrderRow]:
        found = [
            order
            for order in self._orders.values()
            if order.is_claimable(now) and (pools is None or order.pool in pools)
        ]
        return sorted(found, key=lambda order: -order.priority)[:limit]

    async def unclaimed(self, *, now: float) -> dict[str, int]:
        return dict(Counter(order.pool for order in self._orders.values() if order.is_claimable(now)))

    async def leased(self, *, now: float, pools: Collection[str] | None = None) -> dict[str, int]:
        held = [order.pool for order in self._orders.values() if _is_held(order, now)]
        return {pool: held.count(pool) for pool in (set(held) if pools is None else pools)}

    async def due(self, *, now: float, limit: int) -> list[contract.ExecutionRow]:
        rows = [(row.wake_at, row.execution_id) for row in self._executions.values() if row.wake_at is not None]
        return [self._executions[execution_id] for at, execution_id in sorted(rows) if at <= now][:limit]

    async def next_due(self) -> float | None:
        return min((row.wake_at for row in self._executions.values() if row.wake_at is not None), default=None)

    async def lapsed(self, *, now: float) -> dict[str, float]:
        found: dict[str, float] = {}
        for order in self._orders.values():
            owner, until = order.lease_owner, order.lease_until
            if order.state is contract.OrderState.LEASED and owner is not None and until and until < now:
                found[owner] = max(until, found.get(owner, 0.0))
        return found

    async def held_by(self, owner: str) -> list[contract.OrderRow]:
        orders = self._orders.values()
        return [one for one in orders if one.state is contract.OrderState.LEASED and one.lease_owner == owner]

    async def now(self) -> float | None:
        return None

    async def timed(self, wait_id: str) -> str | None:
        for execution_id, events in self._events.items():
            scheduled = (event.payload for event in events if isinstance(event.payload, TimerScheduled))
            if any(payload.wait_id == wait_id for payload in scheduled):
                return execution_id
        return None

    async def ended_nets(self) -> list[str]:
        return sorted({row.net_hash for row in self._executions.values() if row.finished_at is not None})

    async def outlived(self, net_hash: str, *, before: float, limit: int) -> list[str]:
        ended = [
            (row.finished_at, row.execution_id)
            for row in self._executions.values()
            if row.net_hash == net_hash and row.finished_at is not None and row.finished_at < before
            # A child is kept while its parent is open: the parent may still read its result.
            if (parent := self._executions.get(row.parent_execution_id or "")) is None or parent.finished_at is not None
        ]
        return [execution_id for _, execution_id in sorted(ended)][:limit]

    async def retire_spans(self, before: Mapping[str, float]) -> dict[str, str]:
        return {}  # each execution is deleted alone

    async def retire(self, execution_ids: Collection[str]) -> int:
        known = [row for one in set(execution_ids) if (row := self._executions.get(one)) is not None]
        gone = {row.execution_id for row in known if row.finished_at is not None}
        for held in (self._executions, self._events, self._event_ids, self._moved):
            for execution_id in gone:
                held.pop(execution_id, None)
        self._orders = {key: order for key, order in self._orders.items() if order.execution_id not in gone}
        self.waits.retire(gone)
        self.tasks.retire(gone)
        self.notices.retire(gone)
        return len(gone)

    async def checksums(self) -> set[str]:
        payloads = (encode_payload(event.payload) for events in self._events.values() for event in events)
        return checksums_in(*payloads) | checksums_in(*self.waits.texts())

    async def renew(self, order_id: str, *, lease_epoch: int, lease_until: float, owner: str | None = None) -> bool:
        order = self._orders.get(order_id)
        if order is None or order.state is not contract.OrderState.LEASED or order.lease_epoch != lease_epoch:
            return False
        if owner is not None and order.lease_owner != owner:
            return False
        self._orders[order_id] = msgspec.structs.replace(order, lease_until=lease_until)
        return True

    async def net(self, net_hash: str) -> bytes:
        try:
            return self._nets[net_hash]
        except KeyError:
            raise AbsentError(f"no net {net_hash} in this store") from None

    async def rebuild(self) -> int:
        rows = [derived_rows(events) for events in self._events.values() if events]
        self._executions = {one.execution.execution_id: one.execution for one in rows}
        self._orders = {order.order_id: order for one in rows for order in one.orders}
        self.waits.rebuilt([wait for one in rows for wait in one.waits])
        self.tasks.rebuilt([task for one in rows for task in one.tasks])
        return len(rows)

    async def close(self) -> None:
        """Nothing to close."""


def _named_event_ids(commit: contract.Commit) -> list[str]:
    """The ids of events that are not named by their position, which is unique already (docs/decisions/0018)."""
    execution_id = commit.execution.execution_id
    return [one.event_id for one in commit.events if one.event_id != positional(execution_id, one.seq)]


def _age(row: contract.ExecutionRow) -> tuple[float, str]:
    return -row.created_at, row.execution_id


def _filtered_events(events: list[Event], only: contract.EventFilter) -> list[Event]:
    found = [
        event
        for event in events
        if only.step in (None, event.step)
        and (not only.types or any(fnmatchcase(event.event_type, pattern) for pattern in only.types))
    ]
    if only.limit is None:
        return found
    return found[len(found) - only.limit :] if only.newest and only.limit < len(found) else found[: only.limit]


def _may_follow(held: contract.OrderRow, new: contract.OrderRow) -> bool:
    """A lease is taken once per epoch, and a closed order stays closed."""
    if held.state is contract.OrderState.CLOSED:
        return False
    if new.state is contract.OrderState.LEASED:
        # Two servers that claim at the same time write the same next epoch: the second one is refused.
        return new.lease_epoch == held.lease_epoch + 1
    return new.lease_epoch == held.lease_epoch


def _in_its_pool(order: contract.OrderRow, held: contract.OrderRow | None) -> contract.OrderRow:
    """An order stays in the pool it was made for."""
    return order if held is None else msgspec.structs.replace(order, pool=held.pool, priority=held.priority)


def _is_held(order: contract.OrderRow, now: float) -> bool:
    return order.state is contract.OrderState.LEASED and (order.lease_until or 0.0) >= now
