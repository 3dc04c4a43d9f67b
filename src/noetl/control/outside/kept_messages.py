"""Kept messages: taking away by hand what nobody has taken (MSG-02, MSG-03).

What was delivered stays delivered: the store decides, in one statement, whether a message goes to its receiver or away.
"""

from __future__ import annotations

from noetl.base.errors import NotFoundError, SettledError
from noetl.store.waits import Waits


async def remove(waits: Waits, message_id: str, *, now: float) -> None:
    """Remove one. SettledError when an execution has it, NotFoundError when none of this id is kept; either changes
    nothing."""
    if await waits.remove(message_id, now=now):
        return
    there = await waits.message(message_id)
    if there is not None and there.taken_by is not None:
        raise SettledError(f'message "{message_id}" was delivered to execution {there.taken_by}: it stays there')
    raise NotFoundError(f'no message "{message_id}" is kept here: it was removed, its time was over, or it never came')
