"""Presence: a process that works on a store says so, for others who would ask something of it and not wait in vain.

Only one that stays for a while bothers: a short run is over before anybody asks. Nothing depends on it but patience.
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
STALE_S = 3 * REFRESH_S  # who has not said so for that long is gone, wherever it ran

_log = logging.getLogger(__name__)


async def be_present(key_values: KeyValues, name: str, clock: Clock) -> None:
    """Stand on the key-value table for as long as anybody wants it."""
    outage = Outage(_log, "this process could not say that it is here", "this process says again that it is here")
    await asyncio.sleep(AFTER_S)
    try:
        while True:
            try:
                there = await key_values.get(KIND, name)
                await key_values.put(KIND, name, b"{}", over=there.version if there is not None else 0, at=clock.now())
                outage.worked()
            except NoetlError as problem:  # the store is away, say: it will be back
                outage.failed(problem)
            await asyncio.sleep(REFRESH_S)
    finally:
        with suppress(NoetlError):
            await key_values.delete(KIND, name)


async def is_anybody_there(key_values: KeyValues, is_gone: Callable[[str], bool] = is_gone, *, now: float) -> bool:
    """Whether some process works on this store; those that ended without a word are forgotten on the way."""
    found = await key_values.list(KIND)
    gone = [thing.name for thing in found if now - thing.updated_at > STALE_S or is_gone(thing.name)]
    for name in gone:
        await key_values.delete(KIND, name)
    return len(gone) < len(found)


async def is_abandoned(records: Records, row: ExecutionRow) -> bool:
    """Whether the processes that held its work have ended, or it only waits and nobody waits with it: it is there to
    be taken up. An execution of a server never is."""
    if row.finished_at is not None:
        return False
    owners = {order.lease_owner for order in await records.orders(row.execution_id) if order.lease_owner}
    if owners or records.key_values is None:
        return bool(owners) and all(is_gone(owner) for owner in owners)
    # As `is_anybody_there`, but whoever only looks tidies nothing up.
    found = await records.key_values.list(KIND)
    return all(time.time() - thing.updated_at > STALE_S or is_gone(thing.name) for thing in found)
