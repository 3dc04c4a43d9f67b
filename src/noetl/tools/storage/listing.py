"""Listings, in the child: the objects below a folder, a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from fnmatch import fnmatchcase
from typing import Any

import obstore
from obstore.store import ObjectStore

from noetl.base.errors import ToolError
from noetl.tools.storage.locations import Location
from noetl.tools.storage.request import StorageRequest

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
