"""Result stores over a network: common code, and the one in an object store (s3://, gs://, az://, memory://).

Values are named by the SHA-256 of their content (RES-01, RES-02). Equal values have equal names, so a value is written
once. While the store is unavailable, reading and writing raise BackendError: no event refers to a value that is not
stored. The settings of the provider (region, keys, endpoint) come from its usual environment variables.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from noetl.base.errors import BackendError, ToolError
from noetl.events.outcomes import Reference
from noetl.store.results import files

_Result = TypeVar("_Result")


class LoopThread:
    """An event loop in a thread of its own, for asynchronous drivers: any thread may call them and block, any other
    event loop may await them. The thread starts when it is first needed."""

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, asked: Coroutine[Any, Any, _Result]) -> _Result:
        """Its result; blocks until then. Not from the thread itself, which would wait for itself."""
        return asyncio.run_coroutine_threadsafe(asked, self._running()).result()

    async def call_async(self, asked: Coroutine[Any, Any, _Result]) -> _Result:
        """The same for a caller that has an event loop of its own."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, self._running()))

    def _running(self) -> asyncio.AbstractEventLoop:
        # Several threads may ask first at the same moment.
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """End the thread and cancel its calls. The next call starts it again."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(_cut_off(asyncio.all_tasks(loop)))
    loop.close()


async def _cut_off(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


OLD_S = 3_600.0  # a value older than this is touched when it is put again, so that garbage collection spares it


class RemoteResults(ABC):
    """The methods of a backend: `send` and `fetch`, and those for retention."""

    store: str
    is_outside = True

    def __init__(self, url: str) -> None:
        self.url = url
        self._beside = LoopThread(f"results {self.store}")

    @abstractmethod
    async def send(self, body: bytes) -> None: ...

    @abstractmethod
    async def fetch(self, checksum: str) -> bytes: ...

    @abstractmethod
    async def send_file(self, file: Path) -> str: ...

    @abstractmethod
    async def fetch_file(self, checksum: str, into: Path) -> None: ...

    @abstractmethod
    async def listed(self, *, before: float) -> list[str]: ...

    @abstractmethod
    async def dropped(self, checksum: str, *, before: float) -> bool: ...

    def reference(self, value: Any, body: bytes) -> Reference:
        return files.referring(self.store, hashlib.sha256(body).hexdigest(), value, body)

    def _blocking(self, asked: Coroutine[Any, Any, _Result]) -> _Result:
        return self._beside.call(asked)

    def put(self, value: Any) -> Reference:
        body = msgspec.json.encode(value)
        self._blocking(self.send(body))
        return self.reference(value, body)

    def load(self, reference: Reference) -> Any:
        # found by its hash and not by the key of the reference: a worker may have sent the reference
        try:
            body = self.body(reference.checksum)
        except BackendError as problem:  # the value is read while a template is evaluated; the task may be retried
            raise ToolError("result.missing", str(problem), retryable=True) from problem
        return msgspec.json.decode(body)

    def body(self, checksum: str) -> bytes:
        return self._blocking(self.fetch(checksum))

    def table_file(self, checksum: str) -> None:
        return None  # the table is on no disk of this machine

    def untouched(self, *, before: float) -> list[str]:
        return self._blocking(self.listed(before=before))

    def drop(self, checksum: str, *, before: float) -> bool:
        return self._blocking(self.dropped(checksum, before=before))

    def close(self) -> None:
        self._beside.close()


def first_line(problem: BaseException) -> str:
    """The first line of an error message; the other lines are for debugging the driver."""
    return (str(problem) or type(problem).__name__).partition("\n")[0]


_PART_BYTES = 8 << 20


class ObjectResults(RemoteResults):
    """One object per value below the prefix of `url`."""

    store = "objects"

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ImportError:
            raise BackendError(f'results at {url} need an object store: pip install "noetl-engine[storage]"') from None
        super().__init__(url)
        self._objects = obstore
        try:
            self._store = from_url(url)
        except (BaseError, OSError, ValueError) as problem:
            raise BackendError(f"results cannot be kept at {url}: {first_line(problem)}") from problem

    async def send(self, body: bytes) -> None:
        from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError, PreconditionError

        key = files.key_of(hashlib.sha256(body).hexdigest())
        try:
            try:
                await self._objects.put_async(self._store, key, body, mode="create")
            except NotSupportedError:  # a store without conditions writes the same content over itself
                await self._objects.put_async(self._store, key, body)
            except (AlreadyExistsError, PreconditionError):  # the same content is there
                await self._refresh(key, body)
        except (BaseError, OSError) as problem:
            raise self._failed(problem) from problem

    async def _refresh(self, key: str, body: bytes) -> None:
        """Write it over itself when it is old, so that garbage collection does not delete it before an event names
        it."""
        written_at = (await self._objects.head_async(self._store, key))["last_modified"]
        if datetime.now(UTC) - written_at > timedelta(seconds=OLD_S):
            await self._objects.put_async(self._store, key, body)

    async def fetch(self, checksum: str) -> bytes:
        from obstore.exceptions import BaseError

        key = files.key_of(checksum)
        try:
            found = await self._objects.get_async(self._store, key)
            body = bytes(await found.bytes_async())
        except FileNotFoundError:
            raise ToolError("result.missing", f"the stored result {key} is gone") from None
        except (BaseError, OSError) as problem:
            raise self._failed(problem) from problem
        return files.verified(checksum, body)

    async def send_file(self, file: Path) -> str:
        from obstore.exceptions import BaseError

        checksum, _ = await asyncio.to_thread(files.file_checksum, file)
        try:
            # In parts, a few of which are in memory; an upload that breaks off leaves no object.
            await self._objects.put_async(self._store, files.table_key_of(checksum), file, chunk_size=_PART_BYTES)
        except (BaseError, OSError) as problem:
            raise self._failed(problem) from problem
        return checksum

    async def fetch_file(self, checksum: str, into: Path) -> None:
        from obstore.exceptions import BaseError

        try:
            found = await self._objects.get_async(self._store, files.table_key_of(checksum))
            with into.open("wb") as file:
                async for chunk in found.stream(min_chunk_size=_PART_BYTES):
                    await asyncio.to_thread(file.write, chunk)
        except FileNotFoundError:
            raise files.missing_table(checksum) from None
        except (BaseError, OSError) as problem:
            raise self._failed(problem) from problem
        await asyncio.to_thread(files.verify_file, checksum, into)

    async def listed(self, *, before: float) -> list[str]:
        """The objects, one page at a time: a bucket may hold millions."""
        moment = datetime.fromtimestamp(before, UTC)

        def old() -> list[str]:
            pages = self._objects.list(self._store)
            paths = (one["path"] for page in pages for one in page if one["last_modified"] < moment)
            names = (path.rpartition("/")[2].removesuffix(".json").removesuffix(".parquet") for path in paths)
            return [name for name in names if files.is_checksum(name)]

        return await asyncio.to_thread(old)

    async def dropped(self, checksum: str, *, before: float) -> bool:
        return await self._dropped(files.key_of(checksum), before) or await self._dropped(
            files.table_key_of(checksum), before
        )

    async def _dropped(self, key: str, before: float) -> bool:
        from obstore.exceptions import BaseError

        try:
            # Looked at again just before it is deleted: a writer may have put it since it was listed.
            if (await self._objects.head_async(self._store, key))["last_modified"].timestamp() >= before:
                return False
            await self._objects.delete_async(self._store, key)
        except FileNotFoundError:
            return False
        except (BaseError, OSError) as problem:
            raise self._failed(problem) from problem
        return True

    def _failed(self, problem: Exception) -> BackendError:
        return BackendError(f"the result store {self.url} failed: {first_line(problem)}")
