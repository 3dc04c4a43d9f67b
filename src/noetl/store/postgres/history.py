"""Reading a store in PostgreSQL: events, executions, orders and nets as they were committed.

PostgreSQL keeps readers and writers apart by itself, so reading never delays a writer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Unpack

from noetl.base.errors import AbsentError, BackendError
from noetl.events.envelope import Event
from noetl.store.contract import EventFilter, ExecutionQuery, ExecutionRow, MovedExecutions, OrderRow
from noetl.store.event_batches import batch_events, picked, picked_events
from noetl.store.installation import CatalogRow, KeyValues
from noetl.store.postgres.database import Database, address_of, damage_as_unreadable
from noetl.store.postgres.installation import PostgresKeyValues
from noetl.store.postgres.schema import applied, known_migrations, migrate
from noetl.store.row_codecs import event_of, execution_of, lowered, order_of, struct_of
from noetl.store.sql_files import Applied, applied_of, pending

# How many batches are read at once if only some events are wanted: in the first read, and in later ones.
_FIRST_PAGE, _PAGE = 4, 100


class PostgresHistory:
    """The record in one schema. `PostgresStore` adds writing."""

    def __init__(self, database: Database, *, has_rows: bool = False) -> None:
        """`has_rows`: some executions lie in rows of an earlier program, and are not packed."""
        self._db = database
        self._has_rows = has_rows
        self.key_values: KeyValues = PostgresKeyValues(database)

    @classmethod
    async def open(cls, url: str) -> PostgresHistory:
        """Open for reading. BackendError when there is no store, or none that this program can read."""
        database = await Database.open(address_of(url), connections=2)
        try:
            done = await database.read(applied)
            if not done:
                raise BackendError(f"there is no store in {database.where}: run a playbook first, or name another")
            if pending(done, known_migrations(), database.where):
                await migrate(database, known_migrations())
            has_rows = await database.value("select_unpacked", "") is not None  # only a writer packs
        except BaseException:
            await database.close()
            raise
        return cls(database, has_rows=has_rows)

    @classmethod
    async def applied(cls, url: str) -> Applied:
        """The migrations of a store, which is left as it is; none where there is no store."""
        database = await Database.open(address_of(url), connections=1)
        try:
            return applied_of(await database.read(applied), known_migrations(), database.where)
        finally:
            await database.close()

    async def events(self, execution_id: str, *, after: int = 0, only: EventFilter | None = None) -> list[Event]:
        with damage_as_unreadable(execution_id):
            found = await self._packed_events(execution_id, after, only)
            # An execution lies in batches or in rows, never in both: it is packed in one transaction.
            if found or not self._has_rows:
                return found
            rows = await self._db.rows("select_rows", execution_id, after)
            if rows:
                return picked_events([event_of(execution_id, row) for row in rows], only)
            return await self._packed_events(execution_id, after, only)  # another server may have packed them meanwhile

    async def _packed_events(self, execution_id: str, after: int, only: EventFilter | None) -> list[Event]:
        if only is None or only.limit is None:
            rows = await self._db.rows("select_batches", execution_id, after, None)
            return [event for row in rows for event in batch_events(execution_id, row, after=after, only=only)]
        pages: list[list[Event]] = []
        number, place = 0, None if only.newest else after
        # A query for one event mostly finds it in the first batch, and a batch of a loop has hundreds to decode.
        size = min(only.limit, _FIRST_PAGE)
        while number < only.limit:
            if only.newest:
                rows = await self._db.rows("select_newest_batches", execution_id, after, place, size)
            else:
                rows = await self._db.rows("select_batches", execution_id, place, size)
            batches = [batch_events(execution_id, row, after=after, only=only) for row in rows]
            pages += batches
            number += sum(map(len, batches))
            if len(rows) < size:
                break
            size = min(4 * size, _PAGE)
            first_seq, last_seq = rows[-1][:2]
            place = first_seq if only.newest else last_seq
        return picked(pages, only)

    async def execution(self, execution_id: str) -> ExecutionRow | None:
        row = await self._db.row("select_execution", execution_id)
        return execution_of(row) if row else None

    async def positions(self, execution_ids: Collection[str]) -> dict[str, int]:
        rows = await self._db.rows("select_positions", list(execution_ids))
        return dict(rows)

    async def open_among(self, execution_ids: Collection[str]) -> set[str]:
        return {row[0] for row in await self._db.rows("select_open_among", list(execution_ids))}

    async def executions(
        self, *, limit: int = 50, beyond: str | None = None, **wanted: Unpack[ExecutionQuery]
    ) -> list[ExecutionRow]:
        path, text, labels = wanted.get("path"), wanted.get("text"), wanted.get("labels")
        # The query compares columns in lower case, so the text has to be in lower case too.
        pattern, lower = None if path is None else like(path), None if text is None else lowered(text)
        keys, values = (list(labels), list(labels.values())) if labels else (None, None)
        filters = (
            wanted.get("since"),
            wanted.get("until"),
            lower,
            keys,
            values,
            wanted.get("error"),
            wanted.get("step"),
        )
        rows = await self._db.rows("select_executions", wanted.get("status"), pattern, beyond, limit, *filters)
        return [execution_of(row) for row in rows]

    async def moved(self, since: str | None) -> MovedExecutions:
        if since is None or not since.isdecimal():
            return MovedExecutions(str(await self._db.value("select_cursor")))
        rows = await self._db.rows("select_moved", int(since))
        return MovedExecutions(str(rows[0][0]), {row[1]: row[2] for row in rows if row[1] is not None})

    async def registered(self, path: str) -> set[str] | None:
        return {struct_of(CatalogRow, row).net_hash for row in await self._db.rows("select_versions", path)}

    async def children(self, execution_id: str) -> list[ExecutionRow]:
        return [execution_of(row) for row in await self._db.rows("select_children", execution_id)]

    async def tally(self) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._db.rows("tally_executions")}

    async def begin_with(self, prefix: str, *, limit: int = 10) -> list[str]:
        return [row[0] for row in await self._db.rows("select_ids", prefix, limit)]

    async def orders(self, execution_id: str) -> list[OrderRow]:
        return [order_of(row) for row in await self._db.rows("select_orders", execution_id)]

    async def net(self, net_hash: str) -> bytes:
        body = await self._db.value("select_net", net_hash)
        if body is None:
            raise AbsentError(f"no net {net_hash} in the store {self._db.where}")
        return bytes(body)

    async def ask(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._db.read(lambda connection: connection.fetch(statement))]

    async def hazards(self) -> list[str]:
        return [f"{row[0]} is off: what was committed may be lost in a crash" for row in await self._db.rows("unsafe")]

    async def close(self) -> None:
        await self._db.close()


def like(pattern: str) -> str:
    """A pattern for LIKE in which only `*` matches any text."""
    # The backslash first: later it would double the backslashes that escape the other characters.
    for special in ("\\", "%", "_"):
        pattern = pattern.replace(special, "\\" + special)
    return pattern.replace("*", "%")
