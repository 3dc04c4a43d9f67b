"""Watching, in the child: objects that are new or changed since a cursor.

Stores tell the time of an object only to the second, and a long upload appears with the time of its beginning. So the
cursor holds a time and a mark of every object seen in the hour before it: whoever appears late in that hour is new,
and nobody is told twice.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from obstore.store import ObjectStore

from noetl.base.errors import ToolError
from noetl.tools.storage.listing import described, matching
from noetl.tools.storage.request import StorageRequest

OVERLAP = timedelta(hours=1)
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC) + OVERLAP


class Cursor(msgspec.Struct, frozen=True):
    """`until`: the newest time seen. `marks`: the objects seen in the overlap before it."""

    until: datetime = _BEGINNING
    marks: frozenset[str] = frozenset()


async def watch(store: ObjectStore, folder: str, request: StorageRequest) -> dict[str, Any]:
    """The new objects, oldest first, as soon as there are some, or none when the time to wait is over."""
    cursor = _cursor(request.cursor)
    looks = max(1, 1 + int(request.wait_s / request.interval_s))
    for look in range(looks):
        if look:
            await asyncio.sleep(min(request.interval_s, request.wait_s))
        found = await _new(store, folder, request, cursor)
        if found:
            break
    taken = found[: request.limit]
    return {
        "url": str(request.source.location),
        "objects": [described(request, meta) for meta in taken],
        "count": len(taken),
        "more": len(found) > len(taken),
        "cursor": msgspec.to_builtins(_advanced(cursor, taken)),
    }


async def _new(store: ObjectStore, folder: str, request: StorageRequest, cursor: Cursor) -> list[Any]:
    since = cursor.until - OVERLAP
    found = [
        meta
        async for meta in matching(store, folder, request)
        if meta["last_modified"] >= since and _mark(meta) not in cursor.marks
    ]
    return sorted(found, key=lambda meta: (meta["last_modified"], meta["path"]))


def _advanced(cursor: Cursor, taken: list[Any]) -> Cursor:
    until = max([cursor.until, *(meta["last_modified"] for meta in taken)])
    marks = {*cursor.marks, *(_mark(meta) for meta in taken)}
    return Cursor(until, frozenset(mark for mark in marks if _time(mark) >= until - OVERLAP))


def _mark(meta: Any) -> str:
    """An object in one version: the second it is from, and a digest of its key, its time and its etag."""
    moment = meta["last_modified"]
    text = f"{meta['path']}\0{meta['e_tag']}\0{moment.isoformat()}"
    return f"{int(moment.timestamp())}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _time(mark: str) -> datetime:
    return datetime.fromtimestamp(int(mark.rpartition("-")[0]) + 1, UTC)


def _cursor(written: Any) -> Cursor:
    if written is None:
        return Cursor()
    try:
        return msgspec.convert(written, Cursor)
    except msgspec.ValidationError:
        raise ToolError("storage.input", "the cursor of watch is the value that the last call returned") from None
