"""Listings, in the child: the objects below a folder, a page at a time, or those that are new."""

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


async def list_objects(store: ObjectStore, folder: str, request: StorageRequest) -> dict[str, Any]:
    """The first `limit` objects after `cursor`, in the order of their keys, and the cursor of the next call."""
    if request.recursive is False:
        return await _one_level(store, folder, request)
    if request.cursor is not None and not isinstance(request.cursor, str):
        raise ToolError("storage.input", "the cursor of list is the text that the last call returned")
    found: list[dict[str, Any]] = []
    async for meta in matching(store, folder, request, after=request.cursor):
        if len(found) == request.limit:
            return _listed(request, found, cursor=found[-1]["key"])
        found.append(described(request, meta))
    return _listed(request, found, cursor=None)


async def matching(
    store: ObjectStore, folder: str, request: StorageRequest, *, after: str | None = None
) -> AsyncIterator[Any]:
    """Every object below a folder that fits the pattern. Local folders are in no order: those are sorted."""
    if request.source.location.provider == "file":
        pages = [page async for page in obstore.list(store, folder or None, chunk_size=_PAGE)]
        metas = sorted((one for page in pages for one in page), key=lambda one: one["path"])
        for meta in metas:
            if (after is None or meta["path"] > after) and _fits(meta["path"], request.pattern):
                yield meta
        return
    async for page in obstore.list(store, folder or None, offset=after, chunk_size=_PAGE):
        for meta in page:
            if _fits(meta["path"], request.pattern):
                yield meta


async def _one_level(store: ObjectStore, folder: str, request: StorageRequest) -> dict[str, Any]:
    found = await obstore.list_with_delimiter_async(store, folder or None)
    objects = [described(request, one) for one in found["objects"] if _fits(one["path"], request.pattern)]
    folders = sorted(found["common_prefixes"])
    if len(objects) + len(folders) > request.limit:
        raise ToolError(
            "result.too_large", f"{request.source.location} has more than {request.limit} entries: raise limit"
        )
    return _listed(request, sorted(objects, key=lambda one: str(one["key"])), cursor=None) | {"folders": folders}


def _listed(request: StorageRequest, objects: list[dict[str, Any]], *, cursor: str | None) -> dict[str, Any]:
    return {"url": str(request.source.location), "objects": objects, "count": len(objects), "cursor": cursor}


def _fits(path: str, pattern: str) -> bool:
    """A pattern without a slash is for the last part of a key."""
    return not pattern or fnmatchcase(path if "/" in pattern else path.rpartition("/")[2], pattern)


def described(request: StorageRequest, meta: Any) -> dict[str, Any]:
    """What is told of an object."""
    where = request.source.location
    url = str(Location(where.provider, where.bucket, meta["path"]))
    return {
        "url": url,
        "key": meta["path"],
        "size": meta["size"],
        "etag": meta["e_tag"],
        "last_modified": meta["last_modified"].isoformat().replace("+00:00", "Z"),
    }


# Watching, in the child: objects that are new or changed since a cursor.
# Stores tell the time of an object only to the second, and a long upload appears with the time of its beginning. So
# the cursor holds a time and a mark of every object seen in the hour before it: whoever appears late in that hour is
# new, and nobody is told twice.
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
