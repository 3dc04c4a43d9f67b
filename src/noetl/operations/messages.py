"""Kept messages: looking at those that nobody has taken yet, and deleting them by hand (MSG-02, MSG-03).

What a message says is not shown, only how much it is. What was delivered stays delivered: the store decides, in one
statement, whether a message goes to its receiver or away.
"""

from __future__ import annotations

import math

from noetl.base.errors import InvalidError, NotFoundError, SettledError
from noetl.operations.api_shapes import StoredMessage, StoredMessagePage, view_of
from noetl.store.waits import KeptRow, Place, Waits

_MARK = "/"  # in a cursor, between the time and the id


async def message_page(
    waits: Waits, *, now: float, name: str | None, limit: int, cursor: str | None
) -> StoredMessagePage:
    """Messages that nobody has taken, the newest first."""
    beyond = _place(cursor) if cursor is not None else None
    rows = await waits.newest_kept(now=now, name=name, limit=limit + 1, beyond=beyond)
    page = rows[:limit]
    return StoredMessagePage(
        messages=[view_of(StoredMessage, row) for row in page], next=_cursor(page[-1]) if len(rows) > limit else None
    )


async def delete_message(waits: Waits, message_id: str, *, now: float) -> None:
    """SettledError when an execution has it, NotFoundError when none of this id is kept; either changes nothing."""
    if await waits.remove(message_id, now=now):
        return
    there = await waits.message(message_id)
    if there is not None and there.taken_by is not None:
        raise SettledError(f'message "{message_id}" was delivered to execution {there.taken_by}: it stays there')
    raise NotFoundError(f'no message "{message_id}" is kept here: it was removed, its time was over, or it never came')


def _cursor(row: KeptRow) -> str:
    """Its place itself, so that a page follows also when this message is gone by then."""
    return f"{row.sent_at!r}{_MARK}{row.message_id}"


def _place(cursor: str) -> Place:
    sent_at, mark, message_id = cursor.partition(_MARK)
    try:
        if mark and math.isfinite(moment := float(sent_at)):
            return moment, message_id
    except ValueError:
        pass
    raise InvalidError("cursor: it is none that was given out here")
