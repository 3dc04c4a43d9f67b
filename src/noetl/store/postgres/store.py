"""The store in PostgreSQL: one schema, one statement per commit, rows as locks. Any number of servers may share it.

A commit whose answer was lost is sent again. If the first attempt was stored after all, the second one is refused, and
its events are found in the log. So a lost connection or a restarted server has no effect, and nothing is stored twice.
A commit becomes arrays, of rows or of columns, for any number of executions (`Written`): a batch costs as many round
trips as a single step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError
from noetl.store import row_codecs
from noetl.store.audit import Audit
from noetl.store.contract import Commit, ConflictError, ExecutionRow, OrderRow, PoolCapacity, TakenError
from noetl.store.event_batches import batch_events, batch_values
from noetl.store.human_tasks import Tasks
from noetl.store.inspection import Derived, derived_rows
from noetl.store.installation import Catalog, CredentialRows, KeyValues
from noetl.store.notices import Notices
from noetl.store.postgres.database import (
    CONNECTIONS,
    QUERIES,
    Database,
    Pauses,
    UncertainError,
    address_of,
    damage_as_unreadable,
    is_there_already,
)
from noetl.store.postgres.history import PostgresHistory
from noetl.store.postgres.installation import PostgresAudit, PostgresCatalog, PostgresCredentials, PostgresKeyValues
from noetl.store.postgres.schema import SPAN_S, add_spans, known_migrations, migrate, pack, retire_spans
from noetl.store.postgres.waits import PostgresNotices, PostgresRequests, PostgresTasks, PostgresWaits
from noetl.store.waits import Requests, Waits

# The number of columns of each, for `columns` of no rows: PostgreSQL must be given as many arrays as the statement has
# parameters.
_NET, _WAIT, _TASK, _NOTICE, _PAIR = 2, 7, 8, 15, 2


def columns(rows: Iterable[Sequence[Any]], width: int) -> list[Sequence[Any]]:
    """Rows turned into columns: `width` columns, even if there is no row."""
    turned: list[Sequence[Any]] = list(zip(*rows, strict=True))
    return turned or [()] * width


class Written:
    """The rows that a batch of commits writes. Executions are sorted, so that two batches lock their rows in the same
    order and cannot deadlock."""

    def __init__(self, commits: Sequence[Commit]) -> None:
        self._commits = sorted(commits, key=lambda commit: commit.execution.execution_id)
        self._batches = batch_values(self._commits)

    async def write(self, connection: Any) -> None:
        """Write all rows or none. The usual commit is a single statement, which is a transaction of its own."""
        # One round trip instead of four (BEGIN, statement, more, COMMIT): most commits have nothing else.
        if not any(map(_has_more, self._commits)):
            await connection.execute(QUERIES["commit"], *self._main_values())
            return
        rooms = {room for one in self._commits for room in one.room}
        async with connection.transaction():
            if rooms:
                # Two claims that count at the same time would both find room. The lock makes count and claim one
                # step.
                await connection.execute(QUERIES["lock_pools"], [room.pool for room in rooms])
            await connection.execute(QUERIES["commit"], *self._main_values())
            await self._write_more(connection)
            crash_point("append.locked")
            # After the write, so that the orders of this batch are counted too.
            for room in rooms:
                await _check_room(connection, room)

    def _main_values(self) -> list[Sequence[Any]]:
        """The values of the statement `commit`."""
        commits = self._commits
        # A hundred starts of one playbook in a batch send its net once.
        nets = {one.execution.net_hash: one.net for one in commits if one.net is not None}
        return [
            [(*row_codecs.execution_values(one.execution), one.after) for one in commits],
            self._batches,
            [row_codecs.order_values(order) for one in commits for order in one.orders],
            *columns(nets.items(), _NET),
        ]

    async def _write_more(self, connection: Any) -> None:
        """Waits, messages, human tasks and notices. TakenError when a message was delivered elsewhere, or removed."""
        closed = {(one.execution.execution_id, wait_id) for one in self._commits for wait_id in one.closed_waits}
        opened = {(wait.execution_id, wait.wait_id): wait for one in self._commits for wait in one.waits}
        # Opened and closed in the same batch: it never has to be written.
        waits = [row_codecs.wait_values(wait) for key, wait in opened.items() if key not in closed]
        tasks = {task.task_id: row_codecs.task_values(task) for one in self._commits for task in one.tasks}
        if waits:
            await connection.execute(QUERIES["put_waits"], *columns(waits, _WAIT))
        if closed:
            await connection.execute(QUERIES["delete_waits"], *columns(sorted(closed), _PAIR))
        if tasks:
            await connection.execute(QUERIES["put_tasks"], *columns(tasks.values(), _TASK))
        if notices := [row_codecs.notice_values(one) for commit in self._commits for one in commit.notices]:
            await connection.execute(QUERIES["put_notices"], *columns(notices, _NOTICE))
        await self._take_messages(connection)

    async def _take_messages(self, connection: Any) -> None:
        wanted = [(message, one.execution.execution_id) for one in self._commits for message in one.taken_messages]
        if not wanted:
            return
        taken = {row[0] for row in await connection.fetch(QUERIES["take_messages"], *columns(sorted(wanted), _PAIR))}
        seen: set[str] = set()
        for message_id, _ in wanted:
            # The second check is for two executions of this very batch that took the same message.
            if message_id not in taken or message_id in seen:
                raise TakenError(f"message {message_id} was delivered to another wait, or removed")
            seen.add(message_id)

    @property
    def is_new(self) -> bool:
        """Whether the batch only begins executions."""
        return all(one.after == 0 for one in self._commits)

    async def is_stored(self, connection: Any) -> bool:
        """Whether the log holds exactly these batches at their positions; it may have grown since."""
        stored = [await connection.fetchrow(QUERIES["select_batch"], *batch[:2]) for batch in self._batches]
        # Compared as a whole: the same positions may hold the events of another server.
        return bool(stored) and [tuple(row or ()) for row in stored] == self._batches


def _has_more(commit: Commit) -> bool:
    """Whether there are rows besides events, executions, orders and nets."""
    return bool(
        commit.waits or commit.closed_waits or commit.taken_messages or commit.tasks or commit.room or commit.notices
    )


async def _check_room(connection: Any, room: PoolCapacity) -> None:
    """ConflictError if more orders of a pool are leased now than its capacity allows."""
    held = dict(await connection.fetch(QUERIES["select_leased"], room.now, [room.pool]))
    if held.get(room.pool, 0) > room.capacity:
        raise ConflictError(f'pool "{room.pool}" is full: {room.capacity} orders of it are held')


MOVES_KEPT = 50_000  # transactions whose moves are remembered; servers look every second or so


class PostgresStore(PostgresHistory):
    """Open with `PostgresStore.open`; migrations run then."""

    patience_s = SPAN_S + 86_400.0  # one day: executions that began late in a span end later than the others

    def __init__(self, database: Database, *, has_rows: bool = False) -> None:
        super().__init__(database, has_rows=has_rows)
        self.credentials: CredentialRows = PostgresCredentials(database)
        self.catalog: Catalog = PostgresCatalog(database)
        self.requests: Requests = PostgresRequests(database)
        self.waits: Waits = PostgresWaits(database)
        self.tasks: Tasks = PostgresTasks(database)
        self.key_values: KeyValues = PostgresKeyValues(database)
        self.audit: Audit = PostgresAudit(database)
        self.notices: Notices = PostgresNotices(database)

    @classmethod
    async def open(cls, url: str, *, connections: int = CONNECTIONS) -> PostgresStore:
        database = await Database.open(address_of(url), connections=connections)
        try:
            await migrate(database, known_migrations())
            has_rows = not await pack(database)
            # The table of moves only serves servers that look every second; without this it would grow forever.
            await database.assign("forget_moved", MOVES_KEPT)
            await add_spans(database)
        except BaseException:
            await database.close()
            raise
        return cls(database, has_rows=has_rows)

    async def commit(self, commits: Sequence[Commit]) -> None:
        written = Written(commits)
        # Set once the answer to an attempt was lost: from then on a conflict may be with ourselves.
        lost: UncertainError | None = None
        pauses = Pauses(self._db.patience_s)
        while True:
            try:
                await self._db.write(written.write)
            except UncertainError as problem:
                # It may be stored or not. Sending it again is safe: the positions of its events are unique.
                lost = problem
                if not await pauses.waited():
                    raise
            except ConflictError as problem:
                # The conflict may be with our own first attempt, whose answer was lost.
                if lost is not None and await self._db.read(written.is_stored):
                    return
                # The id of a new execution is taken: deciding again would bring the same id (see
                # docs/decisions/0013).
                if written.is_new and is_there_already(problem):
                    raise TakenError(str(problem)) from problem
                raise
            except BackendError as problem:
                if lost is None:
                    raise
                raise lost from problem  # the first attempt may have been stored, so "not stored" could be wrong
            else:
                return

    async def claimable(self, *, now: float, limit: int, pools: Collection[str] | None = None) -> list[OrderRow]:
        wanted = None if pools is None else list(dict.fromkeys(pools))
        rows = await self._db.rows("select_claimable", now, limit, wanted)
        return [row_codecs.order_of(row) for row in rows]

    async def leased(self, *, now: float, pools: Collection[str] | None = None) -> dict[str, int]:
        rows = await self._db.rows("select_leased", now, None if pools is None else list(pools))
        return dict.fromkeys(pools or (), 0) | dict(rows)

    async def unclaimed(self, *, now: float) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._db.rows("count_unclaimed", now)}

    async def due(self, *, now: float, limit: int) -> list[ExecutionRow]:
        return [row_codecs.execution_of(row) for row in await self._db.rows("select_due", now, limit)]

    async def next_due(self) -> float | None:
        found: float | None = await self._db.value("select_next_due")
        return found

    async def lapsed(self, *, now: float) -> dict[str, float]:
        return {row[0]: row[1] for row in await self._db.rows("select_lapsed", now)}

    async def held_by(self, owner: str) -> list[OrderRow]:
        return [row_codecs.order_of(row) for row in await self._db.rows("select_held_by", owner)]

    async def now(self) -> float | None:
        found: float = await self._db.value("select_now")
        return found

    async def timed(self, wait_id: str) -> str | None:
        found: str | None = await self._db.value("select_timed", wait_id)
        return found

    async def ended_nets(self) -> list[str]:
        await self._db.assign("forget_moved", MOVES_KEPT)
        return [row[0] for row in await self._db.rows("select_ended_nets")]

    async def outlived(self, net_hash: str, *, before: float, limit: int) -> list[str]:
        return [row[0] for row in await self._db.rows("select_outlived", net_hash, before, limit)]

    async def retire(self, execution_ids: Collection[str]) -> int:
        async def retired(connection: Any) -> int:
            # Sorted, so that two servers lock the rows in the same order and cannot deadlock.
            rows = await connection.fetch(QUERIES["retire_executions"], sorted(set(execution_ids)))
            crash_point("retention.within")
            await connection.execute(QUERIES["retire_rest"], [row[0] for row in rows])
            return len(rows)

        return await self._db.run_in_transaction(retired)

    async def retire_spans(self, before: Mapping[str, float]) -> dict[str, str]:
        return await retire_spans(self._db, before)

    async def checksums(self) -> set[str]:
        return {row[0] for row in await self._db.rows("select_checksums")}

    async def renew(self, order_id: str, *, lease_epoch: int, lease_until: float, owner: str | None = None) -> bool:
        return await self._db.assign("renew_lease", lease_until, order_id, lease_epoch, owner) == 1

    async def rebuild(self) -> int:
        return await self._db.run_in_transaction(self._rebuilt, repeats=True)

    async def _rebuilt(self, connection: Any) -> int:
        await connection.execute(QUERIES["take_time"])  # the logs are read between two statements
        await connection.execute(QUERIES["lock_rows"])  # commits wait until the end of this transaction
        ids = [row[0] for row in await connection.fetch(QUERIES["select_streams"])]
        rows = [await self._derived_rows(connection, execution_id) for execution_id in ids]
        await connection.execute(QUERIES["delete_rows"])
        crash_point("rebuild.within")
        executions = (one.execution for one in rows)
        await _copy(connection, "execution", ((*row_codecs.execution_values(one), one.last_seq) for one in executions))
        await _copy(connection, "orders", (row_codecs.order_values(order) for one in rows for order in one.orders))
        await _copy(connection, "wait", (row_codecs.wait_values(wait) for one in rows for wait in one.waits))
        await _copy(connection, "task", (row_codecs.task_values(task) for one in rows for task in one.tasks))
        return len(rows)

    async def _derived_rows(self, connection: Any, execution_id: str) -> Derived:
        """The rows that follow from the events alone; a stored row is not read."""
        with damage_as_unreadable(execution_id):
            rows = await connection.fetch(QUERIES["select_stream_of_rows"], execution_id) if self._has_rows else []
            batches = await connection.fetch(QUERIES["select_stream"], execution_id)
        events = [row_codecs.event_of(execution_id, row) for row in rows]
        return derived_rows(events or [event for row in batches for event in batch_events(execution_id, row)])


_COLUMNS = {
    "execution": (*ExecutionRow.__struct_fields__, "counted_seq"),
    "orders": OrderRow.__struct_fields__,
    "wait": ("wait_id", "execution_id", "step_run_id", "kind", "name", "correlation", "opened_at"),
    "task": ("task_id", "execution_id", "state", "role", "assignee", "claimed_by", "created_at", "body"),
}


async def _copy(connection: Any, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    await connection.copy_records_to_table(table, records=rows, columns=_COLUMNS[table])
