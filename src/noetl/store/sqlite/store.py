"""The store in one SQLite file: WAL, `synchronous=FULL`, one transaction per commit (performance.md §2).

Statements run where they are called: handing a commit to another thread costs nearly as much as the flush, and a lone
execution delays no other. Several processes may work on one file; SQLite's lock and the unique keys decide.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError
from noetl.base.private_files import make_file, make_folder
from noetl.events.envelope import Event
from noetl.store import row_codecs
from noetl.store.audit import Audit
from noetl.store.contract import Commit, ConflictError, ExecutionRow, OrderRow, OrderState, TakenError
from noetl.store.event_batches import batch_events, batch_values
from noetl.store.human_tasks import Tasks
from noetl.store.inspection import derived_rows
from noetl.store.installation import Catalog, CredentialRows, KeyValues
from noetl.store.notices import Notices
from noetl.store.row_codecs import checksums_in
from noetl.store.row_summary import stored_summary
from noetl.store.sqlite.database import (
    QUERIES,
    is_up_to_date,
    known_migrations,
    migrate,
    pack,
    refuse_others,
    transaction,
)
from noetl.store.sqlite.history import SqliteHistory, damage_as_unreadable, file_identity, reading_connection
from noetl.store.sqlite.installation import SqliteAudit, SqliteCatalog, SqliteCredentials, SqliteKeyValues
from noetl.store.sqlite.waits import SqliteNotices, SqliteRequests, SqliteTasks, SqliteWaits, write_waits
from noetl.store.waits import Requests, Waits

# How long a commit waits for the write lock of another process. A commit takes milliseconds; packing holds it longest.
_BUSY_MS = 10_000
# 8 MB of log between checkpoints. Each makes one caller wait for two more flushes, but after the first one the log is
# written over instead of growing, and flushing a file that grows costs the system 0.1 ms more a commit.
_CHECKPOINT_PAGES = 2_000

_RETIRED = (
    "retire_rows",
    "retire_batches",
    "retire_keys",
    "retire_timers",
    "retire_orders",
    "retire_waits",
    "retire_tasks",
    "retire_requests",
    "retire_notices",
)


class SqliteStore(SqliteHistory):
    """Open with `SqliteStore.open`; migrations run then."""

    patience_s = 0.0

    def __init__(self, connection: sqlite3.Connection, where: str) -> None:
        super().__init__(connection, where)
        self.credentials: CredentialRows = SqliteCredentials(connection, self._explained)
        self.catalog: Catalog = SqliteCatalog(connection, self._explained)
        self.requests: Requests = SqliteRequests(connection, self._explained)
        self.waits: Waits = SqliteWaits(connection, self._explained)
        self.tasks: Tasks = SqliteTasks(connection, self._explained)
        self.key_values: KeyValues = SqliteKeyValues(connection, self._explained)
        self.audit: Audit = SqliteAudit(connection, self._explained)
        self.notices: Notices = SqliteNotices(connection, self._explained)

    @classmethod
    def open(cls, path: Path, *, reading_will_do: bool = False) -> SqliteStore:
        """With `reading_will_do` a store that may not be written is opened too; writing is refused then."""
        if reading_will_do and path.exists() and _read_only_place(path) is not None:
            return cls._open_for_reading(path)
        _refuse_if_read_only(path)
        try:
            make_folder(path.parent)
            make_file(path)  # the files that SQLite makes beside it have the rights of this one
            # No implicit transactions: `transaction` begins them, and takes the write lock with it.
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as problem:
            why = getattr(problem, "strerror", None) or problem
            way_out = "name a file in a folder that you may write to"
            raise BackendError(f"the store {path} cannot be opened: {why}; {way_out}") from problem
        store = cls(connection, str(path))
        try:
            with store._explained():
                # First, so that the statements below already wait for another process instead of failing.
                connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
                refuse_others(connection, str(path))
                is_up_to_date(connection, known_migrations(), str(path))  # a newer one is refused, never touched
                connection.execute("PRAGMA journal_mode = WAL")
                # In WAL mode NORMAL would not flush each commit, and a power cut could lose data that was acknowledged
                # to a worker.
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
                migrate(connection, known_migrations(), str(path))
                # After the migrations, and every time: an earlier packing may have been interrupted.
                pack(connection)
            store._file = file_identity(str(path))
        except BaseException:
            connection.close()
            raise
        return store

    @classmethod
    def _open_for_reading(cls, path: Path) -> SqliteStore:
        store = cls(reading_connection(path), str(path))
        try:
            with store._explained():
                refuse_others(store._db, str(path))
                if not is_up_to_date(store._db, known_migrations(), str(path)):
                    raise BackendError(f"the store {path} is of an older version, and read-only: make it writable")
        except BaseException:
            store._db.close()
            raise
        return store

    async def commit(self, commits: Sequence[Commit]) -> None:
        with self._explained(), transaction(self._db):
            # The execution rows first: their conditional updates find a conflict before anything is written in vain.
            for commit in commits:
                self._move(commit)
            try:
                self._db.executemany(QUERIES["insert_batch"], batch_values(commits))
            except sqlite3.IntegrityError as problem:
                whose = commits[0].execution.execution_id if len(commits) == 1 else f"one of {len(commits)}"
                # Another process appended the same position, or this commit repeats one: the caller reads the log
                # again.
                raise ConflictError(f"an event of execution {whose} is stored already") from problem
            for commit in commits:
                for order in commit.orders:
                    self._write_order(order)
                if commit.waits or commit.closed_waits or commit.taken_messages:
                    write_waits(self._db, commit)
                if commit.tasks:
                    self._db.executemany(QUERIES["put_task"], [row_codecs.task_values(task) for task in commit.tasks])
                if commit.notices:
                    self._db.executemany(
                        QUERIES["insert_notice"], [row_codecs.notice_values(one) for one in commit.notices]
                    )
            crash_point("append.locked")
            for room in {
                room for commit in commits for room in commit.room
            }:  # one writer at a time: the count is exact
                [held] = self._db.execute(QUERIES["count_leased"], (room.pool, room.now)).fetchone()
                if held > room.capacity:
                    raise ConflictError(f'pool "{room.pool}" is full: {room.capacity} orders of it are held')

    def _move(self, commit: Commit) -> None:
        """The execution's row, to where the commit leaves it."""
        row = commit.execution
        if commit.net is not None:
            self._db.execute(QUERIES["insert_net"], (row.net_hash, commit.net))
        # The first commit of an execution: there is no row to move yet.
        if commit.after == 0:
            self._insert_execution(row)
            return
        counted = (row.failed_iterations, row.iterations, stored_summary(row.summary), row.last_seq)
        rest = (row.wake_at, *counted, row.execution_id, commit.after)
        # A statement of its own for open executions: it leaves the indexes of ended ones alone.
        if row.finished_at is None:
            moved = self._db.execute(QUERIES["move_open_execution"], (row.status, row.last_seq, *rest))
        else:
            moved = self._db.execute(QUERIES["move_execution"], (row.status, row.last_seq, row.finished_at, *rest))
        # The `where last_seq = ?` of the update is the lock: only one writer can move on from a position.
        if moved.rowcount != 1:
            raise ConflictError(f"execution {row.execution_id} has moved past event {commit.after}")

    def _insert_execution(self, row: ExecutionRow) -> None:
        try:
            self._db.execute(QUERIES["insert_execution"], (*row_codecs.execution_values(row), row.last_seq))
        except sqlite3.IntegrityError as problem:
            raise TakenError(f"execution {row.execution_id} exists already") from problem

    def _write_order(self, order: OrderRow) -> None:
        if order.state is OrderState.CLOSED:
            changed = self._db.execute(QUERIES["close_order"], (order.order_id, order.lease_epoch))
        else:
            # A new order, or one that is claimed in the commit that creates it (docs/decisions/0012).
            if (
                order.lease_epoch <= 1
                and self._db.execute(QUERIES["insert_order"], row_codecs.order_values(order)).rowcount == 1
            ):
                return
            # A claim raises the epoch by one. Naming the one before makes two claims of the same order conflict.
            before = order.lease_epoch - (1 if order.state is OrderState.LEASED else 0)
            lease = (order.lease_owner, order.lease_epoch, order.lease_until)
            changed = self._db.execute(QUERIES["move_order"], (order.state.value, *lease, order.order_id, before))
        if changed.rowcount != 1:
            raise ConflictError(f"order {order.order_id} is held under another epoch")

    async def rebuild(self) -> int:
        with self._explained(), transaction(self._db):
            # From the event streams, not from the execution rows: those are what is being rebuilt.
            ids = [one for (one,) in self._db.execute(QUERIES["select_streams"])]
            rows = [derived_rows(self._stream(execution_id)) for execution_id in ids]
            self._db.execute(QUERIES["delete_orders"])
            self._db.execute(QUERIES["delete_executions"])
            self._db.execute(QUERIES["delete_waits"])
            self._db.execute(QUERIES["delete_tasks"])
            crash_point("rebuild.within")
            for one in rows:
                self._insert_execution(one.execution)
                self._db.executemany(QUERIES["insert_order"], [row_codecs.order_values(order) for order in one.orders])
                self._db.executemany(QUERIES["insert_wait"], [row_codecs.wait_values(wait) for wait in one.waits])
                self._db.executemany(QUERIES["put_task"], [row_codecs.task_values(task) for task in one.tasks])
        return len(rows)

    def _stream(self, execution_id: str) -> list[Event]:
        """The events alone; the row beside them, if there is one, is not asked."""
        with damage_as_unreadable(execution_id):
            rows = self._db.execute(QUERIES["select_stream_of_rows"], (execution_id,)).fetchall()
            if rows:
                return [row_codecs.event_of(execution_id, row) for row in rows]
            batches = self._db.execute(QUERIES["select_stream"], (execution_id,)).fetchall()
        return [event for row in batches for event in batch_events(execution_id, row)]

    async def claimable(self, *, now: float, limit: int, pools: Collection[str] | None = None) -> list[OrderRow]:
        values = {"now": now, "limit": limit, "pools": None if pools is None else json.dumps(list(pools))}
        return self._decoded(row_codecs.order_of, "select_claimable", values)

    async def leased(self, *, now: float, pools: Collection[str] | None = None) -> dict[str, int]:
        values = {"now": now, "pools": None if pools is None else json.dumps(list(pools))}
        return dict.fromkeys(pools or (), 0) | dict(self._rows("select_leased", values))

    async def unclaimed(self, *, now: float) -> dict[str, int]:
        return dict(self._rows("count_unclaimed", (now,)))

    async def due(self, *, now: float, limit: int) -> list[ExecutionRow]:
        return self._decoded(row_codecs.execution_of, "select_due", (now, limit))

    async def next_due(self) -> float | None:
        found: float | None = self._row("select_next_due")[0]
        return found

    async def lapsed(self, *, now: float) -> dict[str, float]:
        return dict(self._rows("select_lapsed", {"now": now}))

    async def held_by(self, owner: str) -> list[OrderRow]:
        return self._decoded(row_codecs.order_of, "select_held_by", (owner,))

    async def now(self) -> float | None:
        return None

    async def timed(self, wait_id: str) -> str | None:
        row = self._row("select_timed", (wait_id,))
        return row[0] if row else None

    async def ended_nets(self) -> list[str]:
        return [one for (one,) in self._rows("select_ended_nets")]

    async def outlived(self, net_hash: str, *, before: float, limit: int) -> list[str]:
        return [one for (one,) in self._rows("select_outlived", (before, net_hash, limit))]

    async def retire_spans(self, before: Mapping[str, float]) -> dict[str, str]:
        return {}  # each goes by itself

    async def retire(self, execution_ids: Collection[str]) -> int:
        with self._explained(), transaction(self._db):
            wanted = [(one,) for one in set(execution_ids)]
            # The statement has the condition that it is over. One that another process has removed is not counted here.
            gone = [one for one in wanted if self._db.execute(QUERIES["retire_execution"], one).rowcount == 1]
            crash_point("retention.within")
            for query in _RETIRED:  # events too may go once the rows of their executions are gone (EVT-01)
                self._db.executemany(QUERIES[query], gone)
        return len(gone)

    async def checksums(self) -> set[str]:
        with self._explained():
            rows = self._db.execute(QUERIES["select_naming"])
            return {one for (text,) in rows for one in checksums_in(text.encode())}

    async def renew(self, order_id: str, *, lease_epoch: int, lease_until: float, owner: str | None = None) -> bool:
        return self._change("renew_lease", (lease_until, order_id, lease_epoch, owner, owner)) == 1


def _refuse_if_read_only(path: Path) -> None:
    """Before SQLite tries: the files it makes beside a read-only one are read-only too, and stay in the way."""
    if (place := _read_only_place(path)) is not None:
        what = "folder" if place.is_dir() else "store"
        raise BackendError(f"the {what} {place} is read-only: make it writable, or name another file with --db")


def _read_only_place(path: Path) -> Path | None:
    places = (path, path.parent)  # the folder as well, since the log of a store is a file beside it
    return next((place for place in places if place.exists() and not os.access(place, os.W_OK)), None)
