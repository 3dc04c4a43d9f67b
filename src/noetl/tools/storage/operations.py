"""Operations on object stores, in the child process. `listing` has list and watch."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal

import obstore
from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError
from obstore.store import AzureStore, GCSStore, LocalStore, ObjectStore, S3Store

from noetl.base.addresses.policy import AddressGuard
from noetl.base.errors import ToolError
from noetl.tools.contents import MAX_BYTES, decode
from noetl.tools.files import NO_FOLDER, file_too_large, outside
from noetl.tools.guarded_proxy import guarded_proxy
from noetl.tools.storage.listing import list_objects, object_row, watch
from noetl.tools.storage.request import End, StorageRequest, part_of

# The driver holds an answer until it is complete, except for the content of an object that is copied.
_HEADS_BYTES = 1 << 20  # what an answer has beside an object: heads, and what TLS adds
MAX_ANSWER_BYTES = MAX_BYTES + _HEADS_BYTES
CHUNK_BYTES = 8 << 20
_MAX_PARTS = 9_000  # of an upload; S3 allows 10,000
_MAX_COPY_BYTES = 5 << 30  # the limit of one S3 copy request
_KEY = "noetlkey"  # metadata: the task that wrote it; a name that all three providers accept
_CONCURRENT_CHUNKS = 2  # of an upload, all in memory

Operation = Callable[[ObjectStore, str, StorageRequest, str], Awaitable[dict[str, Any]]]


async def perform(request: StorageRequest, proxy: str) -> dict[str, Any]:
    """The result of a request. Errors of the driver pass through."""
    store, key = open_store(request.source, request, proxy)
    return await _OPERATIONS[request.op](store, key, request, proxy)


async def _get(store: ObjectStore, key: str, request: StorageRequest, _: str) -> dict[str, Any]:
    found = await obstore.get_async(store, key, options=_options(request))
    first, end = found.range
    if end - first > request.part.max_bytes:
        raise _too_large(request, end - first)
    body = bytearray()
    async for chunk in found.stream(min_chunk_size=1 << 20):
        body += chunk
        if len(body) > request.part.max_bytes:  # the declared size may be wrong
            raise _too_large(request, len(body))
    value = decode(bytes(body), request.content.format, kind="storage")
    media_type = found.attributes.get("Content-Type")
    return object_row(request, found.meta) | {"media_type": media_type, "value": value}


def _options(request: StorageRequest) -> Any:
    if not request.part.first_byte and request.part.end_byte is None:
        return None
    if request.part.end_byte is None:
        return {"range": {"offset": request.part.first_byte}}
    return {"range": (request.part.first_byte, request.part.end_byte)}


def _too_large(request: StorageRequest, size: int) -> ToolError:
    return ToolError(
        "result.too_large",
        f"{request.source.location} has {size} bytes and get returns at most {request.part.max_bytes}: read a range of "
        "it, or copy it to a file",
    )


async def _put(store: ObjectStore, key: str, request: StorageRequest, _: str) -> dict[str, Any]:
    if not key:
        raise ToolError("storage.input", "put needs a URL that names an object, not a bucket")
    mode = await _mode(store, key, request)
    try:
        # In one request: a multipart upload cannot carry the condition of `mode`.
        written = await obstore.put_async(
            store, key, request.content.body, attributes=_attributes(request), mode=mode, use_multipart=False
        )
    except (AlreadyExistsError, PreconditionError):
        # An earlier attempt of this task may have written it and lost the answer; the attributes have its key.
        if not await _is_ours(store, key, request):
            raise
        written = await obstore.head_async(store, key)
    return {
        "url": str(request.source.location),
        "size": len(request.content.body),
        "etag": written["e_tag"],
        "checksum": f"sha256:{hashlib.sha256(request.content.body).hexdigest()}",
    }


async def _mode(store: ObjectStore, key: str, request: StorageRequest) -> Any:
    if request.condition.if_match is None:
        return "create" if request.condition.if_absent else "overwrite"
    # Google compares generations, not etags, so the version of this etag is looked up.
    meta = await obstore.head_async(store, key)
    if meta["e_tag"] != request.condition.if_match:
        raise ToolError("storage.conflict", f"{request.source.location} has changed: its etag is {meta['e_tag']}")
    known = {"e_tag": meta["e_tag"], "version": meta["version"]}
    return {name: value for name, value in known.items() if value is not None}


def _attributes(request: StorageRequest) -> Any:
    if request.source.location.provider == "file":
        return None  # files have no attributes
    own = {_KEY: hashlib.sha256(request.condition.key.encode()).hexdigest()} if request.condition.if_absent else {}
    return {"Content-Type": request.content.media_type, **own}


async def _is_ours(store: ObjectStore, key: str, request: StorageRequest) -> bool:
    """Whether an earlier attempt of the same task wrote the object, and only the answer was lost."""
    if not request.condition.if_absent or request.source.location.provider == "file":
        return False
    found = await obstore.get_async(store, key, options={"head": True})
    return bool(found.attributes.get(_KEY) == _attributes(request)[_KEY])


async def _list(store: ObjectStore, key: str, request: StorageRequest, _: str) -> dict[str, Any]:
    return await list_objects(store, key, request)


async def _delete(store: ObjectStore, key: str, request: StorageRequest, _: str) -> dict[str, Any]:
    """Delete an object or folder. A missing one is no error: a repeated attempt finds it deleted."""
    if request.listing.recursive:
        return {"url": str(request.source.location), "deleted": await _delete_folder(store, key)}
    if not key:
        raise ToolError("storage.input", "delete needs a URL that names an object; recursive: true deletes a folder")
    with suppress(FileNotFoundError):
        await obstore.delete_async(store, key)
        return {"url": str(request.source.location), "deleted": 1}
    return {"url": str(request.source.location), "deleted": 0}


async def _delete_folder(store: ObjectStore, key: str) -> int:
    count = 0
    async for page in obstore.list(store, key or None, chunk_size=1_000):
        await obstore.delete_async(store, [meta["path"] for meta in page])
        count += len(page)
    return count


async def _copy(store: ObjectStore, key: str, request: StorageRequest, proxy: str) -> dict[str, Any]:
    """Copy an object. The store copies within itself; otherwise the bytes stream through here, in chunks."""
    assert request.target is not None
    target, target_key = open_store(request.target, request, proxy)
    limit = request.part.max_bytes if request.target.location.provider == "file" else None
    if not key or not target_key:
        raise ToolError("storage.input", "copy needs two URLs that name objects")
    result = {"url": str(request.target.location), "source": str(request.source.location)}
    source, into = request.source, request.target
    # Two data folders are two stores, though neither has a bucket or a credential.
    is_same_root = getattr(store, "prefix", None) == getattr(target, "prefix", None)
    if is_same_root and source.fields == into.fields and source.location.bucket == into.location.bucket:
        # A store that cannot copy by itself, or not that much in one request, falls through to the copy below.
        size = (await obstore.head_async(store, key))["size"]
        if limit is not None and size > limit:
            raise file_too_large(source.location, limit)
        if size <= _MAX_COPY_BYTES:
            with suppress(NotSupportedError):
                await obstore.copy_async(store, key, target_key, overwrite=not request.condition.if_absent)
                written = await obstore.head_async(target, target_key)
                return result | {"size": written["size"], "etag": written["e_tag"], "checksum": None}
    # The proxy of `store` takes only short answers. A proxy of its own serves the content; the target keeps the other.
    async with guarded_proxy(AddressGuard(request.policy), max_answer_bytes=MAX_ANSWER_BYTES) as line:
        try:
            content, _ = open_store(source, request, line.url)
            found = await obstore.get_async(content, key)
            # From here on the content streams. An error was short: the driver holds it until it is complete.
            line.max_answer_bytes = None
            return result | await _stream_copy(found, target, target_key, request, limit)
        except ToolError:
            raise
        except Exception as problem:
            if line.refusal is not None:  # the driver knows only that it got no connection
                raise line.refusal from problem
            raise


async def _stream_copy(
    found: Any, target: ObjectStore, target_key: str, request: StorageRequest, limit: int | None
) -> dict[str, Any]:
    size, digest = found.meta["size"], hashlib.sha256()
    seen = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal seen
        async for chunk in found.stream(min_chunk_size=1 << 20):
            digest.update(chunk)
            seen += len(chunk)
            if limit is not None and seen > limit:  # the declared size may be wrong
                raise file_too_large(request.source.location, limit)
            yield chunk
        if seen != size:  # raised inside the upload, which the driver then aborts
            raise ToolError(
                "storage.error", f"{request.source.location} ended after {seen} of {size} bytes", retryable=True
            )

    if limit is not None and size > limit:
        raise file_too_large(request.source.location, limit)
    # A multipart upload has no condition "if absent": a writer in between is overwritten.
    if request.condition.if_absent and await _exists(target, target_key):
        raise ToolError("storage.conflict", f"copy to {request.target and request.target.location}: it exists already")
    if isinstance(target, LocalStore):
        await _write_file(target, target_key, chunks(), request)
    else:
        await obstore.put_async(
            target,
            target_key,
            chunks(),
            # The number of parts is limited, so a large object is cut into larger ones.
            chunk_size=max(CHUNK_BYTES, -(-size // _MAX_PARTS)),
            max_concurrency=_CONCURRENT_CHUNKS,
            attributes=_kept_attributes(found.attributes),
        )
    written = await obstore.head_async(target, target_key)
    # The stored value, not the sent one.
    if written["size"] != size:
        raise ToolError(
            "storage.error", f"{size} bytes were copied, and the target has {written['size']}", retryable=True
        )
    return {"size": size, "etag": written["e_tag"], "checksum": f"sha256:{digest.hexdigest()}"}


async def _write_file(target: LocalStore, key: str, chunks: AsyncIterator[bytes], request: StorageRequest) -> None:
    """Write a file that appears when it is complete. Its temporary name is known, unlike that of the driver: it can be
    removed also if this process is killed."""
    place = os.path.join(str(target.prefix), key)
    part = part_of(place, request.condition.key)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(part, "wb") as file:
        async for chunk in chunks:
            await asyncio.to_thread(file.write, chunk)
    if not request.condition.if_absent:
        os.replace(part, place)
        return
    try:
        os.link(part, place)  # unlike a rename, it fails if the name exists
    except FileExistsError:
        raise ToolError("storage.conflict", f"copy to file:{place}: it exists already") from None


def _kept_attributes(attributes: Any) -> Any:
    return {name: value for name, value in dict(attributes).items() if name == "Content-Type"} or None


async def _exists(store: ObjectStore, key: str) -> bool:
    try:
        await obstore.head_async(store, key)
    except FileNotFoundError:
        return False
    return True


async def _presign(store: ObjectStore, key: str, request: StorageRequest, _: str) -> dict[str, Any]:
    provider, fields = request.source.location.provider, request.source.fields
    # Without the private key Google signs through another service, which needs a permission of its own.
    if provider == "file" or fields.get("skip_signature") or (provider == "gs" and "service_account_key" not in fields):
        raise ToolError(
            "storage.input", "presign needs a credential that can sign: a key, not a token, and no file URL"
        )
    signing: Any = store
    signed = await obstore.sign_async(signing, _method(request), key, timedelta(seconds=request.link.expires_s))
    return {"url": signed, "method": request.link.method, "expires_s": request.link.expires_s}


def _method(request: StorageRequest) -> Literal["GET", "PUT"]:
    if request.link.method not in ("GET", "PUT"):
        raise ToolError("storage.input", f'method "{request.link.method}" is not known: write GET or PUT')
    return "PUT" if request.link.method == "PUT" else "GET"


async def _watch(store: ObjectStore, key: str, request: StorageRequest, _: str) -> dict[str, Any]:
    return await watch(store, key, request)


_OPERATIONS: dict[str, Operation] = {
    "get": _get,
    "put": _put,
    "list": _list,
    "delete": _delete,
    "copy": _copy,
    "presign": _presign,
    "watch": _watch,
}


# Stores are opened with nothing but the settings of the request.
_RETRY: dict[str, Any] = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
}
_READ_S = 60


def open_store(end: End, request: StorageRequest, proxy: str) -> tuple[ObjectStore, str]:
    """The store of a location, and the key in it."""
    location = end.location
    if location.provider == "file":
        return _local(location.key, request.folders)
    fields = dict(end.fields)
    client = _client_options(fields, request, proxy)
    make: Any = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[location.provider]
    if location.account:
        fields.setdefault("account_name", location.account)
    if location.provider == "s3":
        # A signature contains a region. Services that only speak the protocol of S3 expect this one.
        fields.setdefault("region", "us-east-1")
    if location.provider == "az" and not fields.get("account_name"):
        raise ToolError("keychain.unresolved", 'the credential has no "account_name"')
    return make(location.bucket, config=fields, client_options=client, retry_config=_RETRY), location.key


def _client_options(fields: dict[str, Any], request: StorageRequest, proxy: str) -> dict[str, Any]:
    endpoint = str(fields.get("endpoint") or fields.get("base_url") or "")
    options: dict[str, Any] = {
        "proxy_url": proxy,
        "allow_http": endpoint.startswith("http://"),  # only if the credential has an http endpoint
        "timeout": timedelta(seconds=request.timeout_s),
        "read_timeout": timedelta(seconds=min(_READ_S, request.timeout_s)),
        "connect_timeout": timedelta(seconds=min(10, request.timeout_s)),
        "user_agent": "noetl",
    }
    if authority := fields.pop("ca", None):
        options["root_certificate"] = authority
    return options


def _local(path: str, folders: Sequence[str]) -> tuple[ObjectStore, str]:
    """The store and key of a file or folder below a data folder, with all links resolved."""
    if not folders:
        raise ToolError("storage.input", f'"{path}" cannot be opened: {NO_FOLDER}')
    # Links are resolved before the comparison: a link inside a data folder must not lead out of it.
    roots = [os.path.realpath(folder) for folder in folders]
    place = os.path.realpath(os.path.join(roots[0], path))
    root = next((root for root in roots if os.path.commonpath([root, place]) == root), None)
    if root is None:
        raise ToolError("storage.input", f'"{path}" is {outside(folders)}')
    key = os.path.relpath(place, root)
    # No automatic clean-up: deleting a file would also delete folders of the operator that become empty.
    return LocalStore(root, automatic_cleanup=False), "" if key == "." else key
