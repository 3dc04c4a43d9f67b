"""Files of one bucket, for a process that may open no connection itself (`tools.duckdb.object_files`).

This child process has the credential and the connections. It answers on a Unix socket, over connections that the other
process opens before it is confined. A request is its length followed by JSON and the bytes to write; a response has the
same form. A new object appears when its writer closes it: a writer that ends before leaves none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import obstore

from noetl.base.addresses.policy import AddressGuard
from noetl.base.errors import ToolError
from noetl.tools.child_pipes import error_answer, serve_calls
from noetl.tools.guarded_proxy import GuardedProxy
from noetl.tools.storage.child import failure
from noetl.tools.storage.operations import CHUNK_BYTES, open_store
from noetl.tools.storage.request import StorageRequest, location_of, raw_key

_MAX_READ_BYTES = 256 << 20  # of one answer; DuckDB asks for much less
_MAX_LISTED = 100_000
# The size limit of a log: the log is copied to the disk of the worker before the table is read.
_MAX_LOG_FILES, _MAX_LOG_BYTES = 20_000, 4 << 30
_LOG_FILE = re.compile(r"(\d{20})(\.\d{20})?\.[\w.-]+\.parquet|(\d{20})(\.\d{20}\.compacted)?\.json|_last_checkpoint")
_SIDECAR = re.compile(r"_sidecars/[\w-][\w.-]*\.parquet")
_PARALLEL_COPIES = 8


class FileService:
    """The store of one bucket, and the objects that are being written."""

    def __init__(self, request: StorageRequest, proxy: GuardedProxy) -> None:
        self._store, self._key = open_store(request.source, request, proxy.url)
        self._request, self._proxy = request, proxy
        self._uploads: dict[int, _Upload] = {}
        self._count = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until the other process closes it."""
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    call = msgspec.json.decode(await reader.readexactly(int(await reader.readexactly(8), 16)))
                    head, body = await self._answer(call, await reader.readexactly(call.get("size", 0)))
                    encoded = msgspec.json.encode({**head, "size": len(body)})
                    writer.write(b"%08x" % len(encoded) + encoded + body)
                    await writer.drain()
        finally:
            # Only a process that ended closes a connection: its unfinished objects must not appear.
            for upload in self._uploads.values():
                upload.abort()
            writer.close()

    async def _answer(self, call: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        what = f"{call['op']} of {call.get('path', 'an object')}"
        try:
            return await self._OPERATIONS[call["op"]](self, call, data)
        except Exception as problem:
            error = self.failure_of(problem, what)
            details = {name: value for name, value in error.details.items() if value is not None}
            fields = {"kind": error.kind, "message": error.message, "retryable": error.retryable, **details}
            return {"error": fields}, b""

    def failure_of(self, problem: Exception, what: str) -> ToolError:
        if isinstance(problem, ToolError):
            return problem
        return self._proxy.refusal or failure(problem, what)  # the driver knows only that it got no connection

    def _key_of(self, path: str) -> str:
        asked, own = location_of(path), self._request.source.location
        if (asked.provider, asked.bucket) != (own.provider, own.bucket):
            raise ToolError("storage.input", f"{asked} is not in the bucket of the lake")
        return raw_key(path)

    async def _stat(self, call: dict[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        try:
            meta = await obstore.head_async(self._store, self._key_of(call["path"]))
        except FileNotFoundError:
            return {"found": None}, b""
        return {"found": {"length": meta["size"], "modified": meta["last_modified"].timestamp()}}, b""

    async def _read(self, call: dict[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        first, end = call["first"], call["end"]
        if end - first > _MAX_READ_BYTES:
            raise ToolError("storage.input", f"a read of {end - first} bytes is too large")
        found = await obstore.get_range_async(self._store, self._key_of(call["path"]), start=first, end=end)
        body = bytes(found)
        if len(body) != end - first:
            where = f"{len(body)} of {end - first} bytes of {call['path']}"
            raise ToolError("storage.error", f"the store answered with {where}", retryable=True)
        return {}, body

    async def _list(self, call: dict[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        keys: list[str] = []
        async for page in obstore.list(self._store, self._key_of(call["path"]).strip("/") or None, chunk_size=1_000):
            keys += [meta["path"] for meta in page]
            if len(keys) > _MAX_LISTED:
                raise ToolError("storage.input", f"the folder has more than {_MAX_LISTED} objects")
        return {"keys": keys}, b""

    async def _delete(self, call: dict[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        with suppress(FileNotFoundError):
            await obstore.delete_async(self._store, self._key_of(call["path"]))
        return {}, b""

    async def _open(self, call: dict[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        self._count += 1
        self._uploads[self._count] = _Upload(self._store, self._key_of(call["path"]))
        return {"upload": self._count}, b""

    async def _write(self, call: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        await self._uploads[call["upload"]].write(data)
        return {}, b""

    async def _close(self, call: dict[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        await self._uploads.pop(call["upload"]).close()
        return {}, b""

    _OPERATIONS: dict[str, Callable[..., Awaitable[tuple[dict[str, Any], bytes]]]] = {
        "stat": _stat,
        "read": _read,
        "list": _list,
        "delete": _delete,
        "open": _open,
        "write": _write,
        "close": _close,
    }

    async def copy_log(self, folder: Path, *, is_latest: bool) -> dict[str, Any]:
        """Copy the log of the Delta table of the request, and the deletion vectors beside it, into a folder: the
        extension of DuckDB reads both with a network stack of its own. The files of rows are not copied."""
        root = self._key.strip("/")
        first = await self._last_checkpoint(root) if is_latest else 0
        wanted: list[tuple[str, int]] = []
        async for page in obstore.list(self._store, f"{root}/_delta_log", chunk_size=1_000):
            wanted += [(meta["path"], meta["size"]) for meta in page if _is_log(meta["path"][len(root) + 12 :], first)]
            _check_log(wanted)
        if not wanted:
            raise ToolError("storage.missing", f"{self._request.source.location} is no Delta table: it has no log")
        vectors = f"{root}/deletion_vector"
        async for page in obstore.list(self._store, root, offset=vectors, chunk_size=1_000):
            wanted += [
                (meta["path"], meta["size"]) for meta in page if re.fullmatch(r"[\w.-]+", meta["path"][len(root) + 1 :])
            ]
            wanted = [one for one in wanted if one[0].startswith((vectors, f"{root}/_delta_log"))]
            _check_log(wanted)
            if not page[-1]["path"].startswith(vectors):
                break
        turns = asyncio.Semaphore(_PARALLEL_COPIES)
        await asyncio.gather(*(self._copy(key, folder / key[len(root) + 1 :], turns) for key, _ in wanted))
        return {"files": len(wanted)}

    async def _last_checkpoint(self, root: str) -> int:
        """The version from which a log can be read; 0 if there is no checkpoint."""
        try:
            found = await obstore.get_async(
                self._store, f"{root}/_delta_log/_last_checkpoint", options={"range": (0, 65_536)}
            )
            version = msgspec.json.decode(bytes(await found.bytes_async()))["version"]
        except (FileNotFoundError, msgspec.DecodeError, KeyError, TypeError):
            return 0
        return version if isinstance(version, int) else 0

    async def _copy(self, key: str, into: Path, turns: asyncio.Semaphore) -> None:
        async with turns:
            found = await obstore.get_async(self._store, key)
            into.parent.mkdir(parents=True, exist_ok=True)
            with into.open("wb") as file:
                async for chunk in found.stream(min_chunk_size=1 << 20):
                    file.write(chunk)


def _is_log(name: str, first: int) -> bool:
    if (match := _LOG_FILE.fullmatch(name)) is None:
        return _SIDECAR.fullmatch(name) is not None
    number = match[1] or match[3]
    return number is None or int(number) >= first


def _check_log(wanted: list[tuple[str, int]]) -> None:
    size = sum(one for _, one in wanted)
    if len(wanted) > _MAX_LOG_FILES or size > _MAX_LOG_BYTES:
        raise ToolError("storage.input", f"the log of the table is too large: {len(wanted)} files, {size} bytes")


class _Upload:
    """One object that is being written. Parts go to the store while it is written."""

    def __init__(self, store: Any, key: str) -> None:
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=2)
        self._is_aborted = False
        self._task = asyncio.ensure_future(
            obstore.put_async(store, key, self._chunks(), chunk_size=CHUNK_BYTES, max_concurrency=2)
        )

    async def _chunks(self) -> AsyncIterator[bytes]:
        while (part := await self._parts.get()) is not None:
            if self._is_aborted:
                raise ConnectionAbortedError("its writer ended")  # the driver then drops the parts it has sent
            yield part

    async def write(self, data: bytes) -> None:
        await self._put(data)

    async def close(self) -> None:
        await self._put(None)
        await self._task

    async def _put(self, part: bytes | None) -> None:
        """Wait for a free place, or for the upload to fail."""
        placing = asyncio.ensure_future(self._parts.put(part))
        await asyncio.wait({placing, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not placing.done():
            placing.cancel()
            await self._task

    def abort(self) -> None:
        self._is_aborted = True
        with suppress(asyncio.QueueFull):  # a part is waiting, and wakes `_chunks` too
            self._parts.put_nowait(b"")


def serve() -> None:
    serve_calls(_FileServiceProcess().answer_to)


class _FileServiceProcess:
    """Calls come one at a time over the pipes of the child; files are served beside them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._service: FileService | None = None
        self._kept: list[Any] = []
        Thread(target=self._loop.run_forever, daemon=True).start()

    def answer_to(self, call: dict[str, Any]) -> bytes:
        work: Coroutine[Any, Any, dict[str, Any]] = self._serve(call) if "socket" in call else self._copy_log(call)
        try:
            result = asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except ToolError as problem:
            return error_answer(problem)
        except Exception as problem:
            # Only the class: the driver's text may hold a signed URL.
            return error_answer(ToolError("storage.error", type(problem).__name__))
        return msgspec.json.encode({"result": result})

    async def _serve(self, call: dict[str, Any]) -> dict[str, Any]:
        request = msgspec.convert(call["request"], StorageRequest)
        proxy = GuardedProxy(AddressGuard(request.policy))
        self._kept.append(await proxy.start())
        try:
            self._service = FileService(request, proxy)
        except ToolError:
            raise
        except Exception as problem:  # a credential that cannot be read
            raise failure(problem, f"opening {request.source.location}") from problem
        self._kept.append(await asyncio.start_unix_server(self._service.serve, call["socket"]))
        return {}

    async def _copy_log(self, call: dict[str, Any]) -> dict[str, Any]:
        assert self._service is not None
        try:
            return await self._service.copy_log(Path(call["folder"]), is_latest=call["is_latest"])
        except Exception as problem:
            raise self._service.failure_of(problem, "the log of the table") from problem
