"""The store in PostgreSQL: one schema, one statement per commit, rows as locks. Any number of servers may share it.

A commit whose answer was lost is sent again: should the first have been stored after all, the second is refused, and
finds its own events in the log. So a lost connection or a restarted server is not felt, and nothing is stored twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError
from noetl.store import row_codecs
from noetl.store.audit import Audit
from noetl.store.contract import Commit, ConflictError, ExecutionRow, OrderRow, TakenError
from noetl.store.event_batches import batch_events
from noetl.store.human_tasks import Tasks
from noetl.store.inspection import Derived, derived_rows
from noetl.store.installation import Catalog, CredentialRows, KeyValues
from noetl.store.notices import Notices
from noetl.store.postgres.commits import Written
from noetl.store.postgres.database import CONNECTIONS, QUERIES, Database, Pauses, address_of
from noetl.store.postgres.failures import UncertainError, damage_as_unreadable, is_there_already
from noetl.store.postgres.history import PostgresHistory
from noetl.store.postgres.installation import PostgresAudit, PostgresCatalog, PostgresCredentials, PostgresKeyValues
from noetl.store.postgres.migration import known_migrations, migrate, pack
from noetl.store.postgres.spans import SPAN_S, add_spans, retire_spans
from noetl.store.postgres.waits import PostgresNotices, PostgresRequests, PostgresTasks, PostgresWaits
from noetl.store.requests import Requests
from noetl.store.waits import Waits

MOVES_KEPT = 50_000  # transactions whose moves are remembered; servers look every second or so


class PostgresStore(PostgresHistory):
    """Open with `PostgresStore.open`; migrations run then."""

    patience_s = SPAN_S + 86_400.0  # a day, for what began last in a span and took its time

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
            # The table of moves only serves servers that look every second; without this it would grow for ever.
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
                raise lost from problem  # the first attempt may have been stored: not the whole truth otherwise
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
        await connection.execute(QUERIES["take_time"])  # between two statements, logs are read
        await connection.execute(QUERIES["lock_rows"])  # commits wait until we are through
        ids = [row[0] for row in await connection.fetch(QUERIES["select_streams"])]
        rows = [await self._derived(connection, execution_id) for execution_id in ids]
        await connection.execute(QUERIES["delete_rows"])
        crash_point("rebuild.within")
        await _copy(connection, "execution", (row_codecs.execution_values(one.execution) for one in rows))
        await _copy(connection, "orders", (row_codecs.order_values(order) for one in rows for order in one.orders))
        await _copy(connection, "wait", (row_codecs.wait_values(wait) for one in rows for wait in one.waits))
        await _copy(connection, "task", (row_codecs.task_values(task) for one in rows for task in one.tasks))
        return len(rows)

    async def _derived(self, connection: Any, execution_id: str) -> Derived:
        """From the events alone; the row beside them, if there is one, is not asked."""
        with damage_as_unreadable(execution_id):
            rows = await connection.fetch(QUERIES["select_stream_of_rows"], execution_id) if self._has_rows else []
            batches = await connection.fetch(QUERIES["select_stream"], execution_id)
        events = [row_codecs.event_of(execution_id, row) for row in rows]
        return derived_rows(events or [event for row in batches for event in batch_events(execution_id, row)])


_COLUMNS = {
    "execution": ExecutionRow.__struct_fields__,
    "orders": OrderRow.__struct_fields__,
    "wait": ("wait_id", "execution_id", "step_run_id", "kind", "name", "correlation", "opened_at"),
    "task": ("task_id", "execution_id", "state", "role", "assignee", "claimed_by", "created_at", "body"),
}


async def _copy(connection: Any, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    await connection.copy_records_to_table(table, records=rows, columns=_COLUMNS[table])
