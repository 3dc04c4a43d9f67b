"""Listings, in the child process: the objects below a folder, in pages, or those that are new."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import obstore
from obstore.store import ObjectStore

from noetl.base.errors import ToolError
from noetl.tools.storage.request import Location, StorageRequest

_PAGE = 1_000
# Of the names that a call holds: a store may make pages without end, and names of any length.
_MAX_HELD_BYTES = 64 << 20


async def list_objects(store: ObjectStore, folder: str, request: StorageRequest) -> dict[str, Any]:
    """The first `limit` objects after `cursor`, in the order of their keys, and the cursor of the next call."""
    if request.listing.recursive is False:
        return await _one_level(store, folder, request)
    if request.listing.cursor is not None and not isinstance(request.listing.cursor, str):
        raise ToolError("storage.input", "the cursor of list is the text that the last call returned")
    found: list[dict[str, Any]] = []
    held = 0
    async for meta in matching(store, folder, request, after=request.listing.cursor):
        # Checked before the append: only a further object proves that there is a next page.
        if len(found) == request.listing.limit:
            return _list_result(request, found, cursor=found[-1]["key"])
        held = _checked_sum(held, meta, request)
        found.append(object_row(request, meta))
    return _list_result(request, found, cursor=None)


def _checked_sum(held: int, meta: Any, request: StorageRequest) -> int:
    """The bytes held with one more object. Raises ToolError `result.too_large` if they are too many."""
    held += len(meta["path"]) + len(meta["e_tag"] or "")
    if held > _MAX_HELD_BYTES:
        where = f"the names of the objects in {request.source.location}"
        raise ToolError("result.too_large", f"{where} have more than {_MAX_HELD_BYTES >> 20} MiB: write a lower limit")
    return held


async def matching(
    store: ObjectStore, folder: str, request: StorageRequest, *, after: str | None = None
) -> AsyncIterator[Any]:
    """The objects below a folder that match the pattern, in the order of their keys. Local folders have no order, so
    they are sorted here."""
    if request.source.location.provider == "file":
        pages = [page async for page in obstore.list(store, folder or None, chunk_size=_PAGE)]
        metas = sorted((meta for page in pages for meta in page), key=lambda meta: meta["path"])
        for meta in metas:
            if (after is None or meta["path"] > after) and _matches_pattern(meta["path"], request.listing.pattern):
                yield meta
        return
    async for page in obstore.list(store, folder or None, offset=after, chunk_size=_PAGE):
        for meta in page:
            if _matches_pattern(meta["path"], request.listing.pattern):
                yield meta


async def _one_level(store: ObjectStore, folder: str, request: StorageRequest) -> dict[str, Any]:
    found = await obstore.list_with_delimiter_async(store, folder or None)
    options = request.listing
    objects = [
        object_row(request, meta) for meta in found["objects"] if _matches_pattern(meta["path"], options.pattern)
    ]
    folders = sorted(found["common_prefixes"])
    if len(objects) + len(folders) > options.limit:
        raise ToolError(
            "result.too_large", f"{request.source.location} has more than {options.limit} entries: raise limit"
        )
    return _list_result(request, sorted(objects, key=lambda row: str(row["key"])), cursor=None) | {"folders": folders}


def _list_result(request: StorageRequest, objects: list[dict[str, Any]], *, cursor: str | None) -> dict[str, Any]:
    return {"url": str(request.source.location), "objects": objects, "count": len(objects), "cursor": cursor}


def _matches_pattern(path: str, pattern: str) -> bool:
    """Whether a key matches. A pattern without a slash applies to the last part of the key."""
    return not pattern or fnmatchcase(path if "/" in pattern else path.rpartition("/")[2], pattern)


def object_row(request: StorageRequest, meta: Any) -> dict[str, Any]:
    """An object as a row of the result."""
    where = request.source.location
    url = str(Location(where.provider, where.bucket, meta["path"]))
    return {
        "url": url,
        "key": meta["path"],
        "size": meta["size"],
        "etag": meta["e_tag"],
        "last_modified": meta["last_modified"].isoformat().replace("+00:00", "Z"),
    }


# Watching: objects that are new or changed since a cursor.
# Stores report the time of an object only to the second, and a long upload appears with the time of its start. So the
# cursor holds a time and a mark of every object seen in the hour before it. An object that appears late within that
# hour is still new, and no object is returned twice.
OVERLAP = timedelta(hours=1)
# Not the very first moment: `until - OVERLAP` has to be a datetime too.
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC) + OVERLAP


class Cursor(msgspec.Struct, frozen=True):
    """`until`: the newest time seen. `marks`: the objects seen in the overlap before it."""

    until: datetime = _BEGINNING
    marks: frozenset[str] = frozenset()


async def watch(store: ObjectStore, folder: str, request: StorageRequest) -> dict[str, Any]:
    """The new objects, oldest first, as soon as there are some; none if `wait_s` passes without any."""
    options = request.listing
    cursor = _cursor(options.cursor)
    # Counted, not timed: the number of listings does not depend on how long each of them takes.
    looks = max(1, 1 + int(options.wait_s / options.interval_s))
    for look in range(looks):
        if look:
            await asyncio.sleep(min(options.interval_s, options.wait_s))
        found = await _new(store, folder, request, cursor)
        if found:
            break
    returned = found[: options.limit]
    return {
        "url": str(request.source.location),
        "objects": [object_row(request, meta) for meta in returned],
        "count": len(returned),
        "more": len(found) > len(returned),
        "cursor": msgspec.to_builtins(_next_cursor(cursor, returned)),
    }


async def _new(store: ObjectStore, folder: str, request: StorageRequest, cursor: Cursor) -> list[Any]:
    """The oldest new objects: one more than `limit`, if there are so many. No more are held, however many there are."""
    since, most = cursor.until - OVERLAP, request.listing.limit + 1
    found: list[Any] = []
    held = 0
    async for meta in matching(store, folder, request):
        if meta["last_modified"] < since or _mark(meta) in cursor.marks:
            continue
        found.append(meta)
        held = _checked_sum(held, meta, request)
        if len(found) >= most + _PAGE:
            found = sorted(found, key=_age)[:most]
            held = sum(len(one["path"]) + len(one["e_tag"] or "") for one in found)
    return sorted(found, key=_age)[:most]


def _age(meta: Any) -> tuple[datetime, str]:
    return meta["last_modified"], meta["path"]


def _next_cursor(cursor: Cursor, returned: list[Any]) -> Cursor:
    until = max([cursor.until, *(meta["last_modified"] for meta in returned)])
    marks = {*cursor.marks, *(_mark(meta) for meta in returned)}
    return Cursor(until, frozenset(mark for mark in marks if _time(mark) >= until - OVERLAP))


def _mark(meta: Any) -> str:
    """The mark of one version of an object: its second, and a digest of its key, time and etag."""
    moment = meta["last_modified"]
    text = f"{meta['path']}\0{meta['e_tag']}\0{moment.isoformat()}"
    return f"{int(moment.timestamp())}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _time(mark: str) -> datetime:
    # The mark has the second without its fraction: one more, so that no mark is forgotten too early.
    return datetime.fromtimestamp(int(mark.rpartition("-")[0]) + 1, UTC)


def _cursor(written: Any) -> Cursor:
    if written is None:
        return Cursor()
    try:
        return msgspec.convert(written, Cursor)
    except msgspec.ValidationError:
        raise ToolError("storage.input", "the cursor of watch is the value that the last call returned") from None
