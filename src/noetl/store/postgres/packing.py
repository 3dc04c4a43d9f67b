"""Packing: events that an earlier program stored one by one become batches (docs/decisions/0016).

Executions are packed whole, some in each transaction, while servers of the version before go on with them. A program
that is killed meanwhile leaves the rest as rows, which read as ever, and the next one goes on with them.
"""

from __future__ import annotations

import logging
from typing import Any

from noetl.base.crash_points import crash_point
from noetl.store.event_batches import batches_of_rows
from noetl.store.postgres.database import Database
from noetl.store.postgres.queries import QUERIES

_EVENTS_AT_ONCE = 5_000  # of one transaction: others write in between
_LONG_S = 3_600.0  # an execution may have a million events, and others may be packing
_log = logging.getLogger(__name__)


async def pack(database: Database, *, at_once: int = _EVENTS_AT_ONCE) -> bool:
    """Pack everything that lies in rows; False when some of it could not be. Safe when several programs do it at
    once."""
    if await database.value("select_unpacked", "") is None:
        return True
    _log.info("packing the history of earlier executions, which takes a while in a large store")
    beyond: str | None = ""
    while beyond is not None:
        packer = _Packer(beyond, at_once)
        beyond = await database.run_in_transaction(packer.pack_some, repeats=True)
    _log.info("packed the history of earlier executions")
    return await database.value("select_unpacked", "") is None


class _Packer:
    """One transaction of it. What it repeats after a lost connection begins at the same execution."""

    def __init__(self, beyond: str, at_once: int) -> None:
        self._beyond, self._at_once = beyond, at_once

    async def pack_some(self, connection: Any) -> str | None:
        """Where to go on; None when nothing is left."""
        await connection.execute(QUERIES["take_time"])  # between two statements, rows are packed
        await connection.execute(QUERIES["lock_packing"], timeout=_LONG_S)
        beyond: str | None = self._beyond
        events = 0
        while events < self._at_once:
            beyond = await connection.fetchval(QUERIES["select_unpacked"], beyond)
            if beyond is None:
                break
            events += await _pack_execution(connection, beyond)
        crash_point("packing.within")
        return beyond


async def _pack_execution(connection: Any, execution_id: str) -> int:
    """How many events it has. One that lacks events stays as it is: it can be looked at, and `noetl db check` tells of
    it."""
    await connection.execute(QUERIES["lock_execution"], execution_id)
    found = await connection.fetch(QUERIES["select_rows_to_pack"], execution_id)
    rows = [(*row[:11], row[11].encode(), row[12]) for row in found]
    if [row[0] for row in rows] == list(range(1, len(rows) + 1)):
        await connection.execute(QUERIES["begin_packing"], execution_id)
        await connection.execute(QUERIES["delete_rows_to_pack"], execution_id, timeout=_LONG_S)
        await connection.execute(QUERIES["insert_batches"], batches_of_rows(execution_id, rows), timeout=_LONG_S)
        await connection.execute(QUERIES["end_packing"], execution_id)
    return len(rows)
