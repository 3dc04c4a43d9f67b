"""Presence: a process that works on a store has an entry in the key-value table. Others that would ask something of it
see whether an answer can come.

A short run writes no entry: it is over before a request comes. Nothing but the time that others wait depends on it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from noetl.base.clock import Clock
from noetl.base.errors import NoetlError, Outage
from noetl.store.installation import KeyValues
from noetl.worker.identity import is_gone

if TYPE_CHECKING:
    from noetl.store.contract import ExecutionRow, Records

KIND = "process"
# Most embedded runs are shorter, and two writes would be a good part of what they cost.
AFTER_S = 0.1
REFRESH_S = 60.0
STALE_S = 3 * REFRESH_S  # a process that has not refreshed its entry for this long is gone, on whichever host

_log = logging.getLogger(__name__)


async def announce_presence(key_values: KeyValues, name: str, clock: Clock) -> None:
    """Keep the entry of this process fresh; runs until it is cancelled, and then removes the entry."""
    outage = Outage(_log, "the presence of this process could not be stored", "its presence is stored again")
    await asyncio.sleep(AFTER_S)
    try:
        while True:
            try:
                entry = await key_values.get(KIND, name)
                await key_values.put(KIND, name, b"{}", over=entry.version if entry is not None else 0, at=clock.now())
                outage.worked()
            except NoetlError as problem:  # a store that is unreachable will be back
                outage.failed(problem)
            await asyncio.sleep(REFRESH_S)
    finally:
        with suppress(NoetlError):
            await key_values.delete(KIND, name)


async def is_anybody_there(key_values: KeyValues, is_gone: Callable[[str], bool] = is_gone, *, now: float) -> bool:
    """Whether a process works on this store. Entries of processes that crashed are deleted on the way."""
    entries = await key_values.list(KIND)
    gone = [entry.name for entry in entries if now - entry.updated_at > STALE_S or is_gone(entry.name)]
    for name in gone:
        await key_values.delete(KIND, name)
    return len(gone) < len(entries)


async def is_abandoned(records: Records, row: ExecutionRow) -> bool:
    """Whether an execution can be taken over: the processes that held its orders have ended, or it has no leased order
    and no process works on the store. An execution of a server never is."""
    if row.finished_at is not None:
        return False
    owners = {order.lease_owner for order in await records.orders(row.execution_id) if order.lease_owner}
    if owners or records.key_values is None:
        return bool(owners) and all(is_gone(owner) for owner in owners)
    # As `is_anybody_there`, without deleting entries: a view must not write.
    entries = await records.key_values.list(KIND)
    return all(time.time() - entry.updated_at > STALE_S or is_gone(entry.name) for entry in entries)
