"""Results in the object store of a NATS broker: nats://host:4222/bucket (RES-01, RES-02).

The bucket is made when it is missing. Whoever deletes the broker's data deletes these results with it, so nobody gets
them here without asking for it. A connection that is lost is made anew by whoever asks next; until then every call is a
BackendError, and nothing is told of a value that nobody could ask for.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from time import time
from typing import BinaryIO, TypeVar
from urllib.parse import parse_qs, urlsplit, urlunsplit

from noetl.base.errors import BackendError, ToolError
from noetl.base.nats_shutdown import leave
from noetl.store.results.files import file_checksum, is_checksum, key_of, table_key_of, verified, verify_file
from noetl.store.results.remote import OLD_S, RemoteResults, first_line

try:
    from nats.aio.client import Client
    from nats.errors import Error as NatsError
    from nats.js.api import ObjectInfo, ObjectStoreConfig, StorageType
    from nats.js.errors import APIError, BadRequestError, DigestMismatchError, NotFoundError

    from noetl.store.results.nats_bucket import Bucket, OvertakenError
except ImportError:
    raise BackendError("results in a NATS broker need its driver: install noetl-engine[nats]") from None

_T = TypeVar("_T")
BUCKET = "noetl-results"
_PATIENCE_S = 5.0  # for one answer
_BYTES_PER_S = 1 << 20  # slower than that is broken
_TRIES = 5


class NatsResults(RemoteResults):
    """One object per value. `?replicas=3` says on how many brokers of a cluster a new bucket lies."""

    store = "nats"

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        super().__init__(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])))  # fit to be printed
        asked = parse_qs(parts.query)
        self._server = urlunsplit(parts._replace(path="", query="", fragment=""))
        self._name = parts.path.strip("/") or BUCKET
        replicas = asked.pop("replicas", ["1"])[-1]
        if not parts.hostname or asked or not replicas.isdecimal() or not _is_bucket(self._name):
            raise BackendError(
                f"results cannot be kept at {self.url}: expected nats://host:4222/bucket, "
                "the bucket of letters, digits, - and _, with ?replicas=… at most"
            )
        self._replicas = int(replicas)
        self._client: Client | None = None
        self._bucket: Bucket | None = None
        self._connecting = asyncio.Lock()

    async def send(self, body: bytes) -> None:
        await self._send(key_of(hashlib.sha256(body).hexdigest()), io.BytesIO(body), len(body))

    async def send_file(self, file: Path) -> str:
        checksum, size = await asyncio.to_thread(file_checksum, file)
        with file.open("rb") as body:
            await self._send(table_key_of(checksum), body, size)
        return checksum

    async def _send(self, name: str, body: BinaryIO, size: int) -> None:
        async def stored(bucket: Bucket) -> None:
            for _ in range(_TRIES):
                info, seen = await bucket.entry(name)
                with suppress(OvertakenError):  # by somebody who puts the same, or who collects
                    if info is None:
                        body.seek(0)
                        return await bucket.put(name, body, over=seen)
                    if time() - _written_at(info) > OLD_S:
                        await bucket.touch(info, over=seen)
                    return None
            raise BackendError(f"the result store {self.url} failed: {name} is changed all the time")

        await self._with_bucket(stored, _PATIENCE_S + size / _BYTES_PER_S)

    async def fetch(self, checksum: str) -> bytes:
        return verified(checksum, await self._read(key_of(checksum), lambda bucket, name: bucket.body(name)))

    async def fetch_file(self, checksum: str, into: Path) -> None:
        with into.open("wb") as file:
            await self._read(table_key_of(checksum), lambda bucket, name: bucket.read(name, file))
        await asyncio.to_thread(verify_file, checksum, into)

    async def _read(self, name: str, read_from: Callable[[Bucket, str], Awaitable[_T]]) -> _T:
        async def read(bucket: Bucket) -> _T:
            info, _ = await bucket.entry(name)
            if info is None:
                raise NotFoundError
            try:
                async with asyncio.timeout(_PATIENCE_S + (info.size or 0) / _BYTES_PER_S):
                    return await read_from(bucket, name)
            except TimeoutError:
                if not await bucket.holds(info):  # its parts were deleted, and the driver waits for them for ever
                    raise NotFoundError from None
                raise

        try:
            return await self._with_bucket(read, None)
        except NotFoundError:
            raise ToolError("result.missing", f"the stored result {name} is gone") from None
        except DigestMismatchError:
            raise ToolError("result.corrupt", f"the stored result {name} is not what was written") from None

    async def listed(self, *, before: float) -> list[str]:
        entries = await self._with_bucket(lambda bucket: bucket.entries(), None)
        old = (info.name for info in entries if _written_at(info) < before)
        names = (name.rpartition("/")[2].removesuffix(".json").removesuffix(".parquet") for name in old)
        return [name for name in names if is_checksum(name)]

    async def dropped(self, checksum: str, *, before: float) -> bool:
        return await self._dropped(key_of(checksum), before) or await self._dropped(table_key_of(checksum), before)

    async def _dropped(self, name: str, before: float) -> bool:
        async def delete_if_old(bucket: Bucket) -> bool:
            info, seen = await bucket.entry(name)
            if info is None or _written_at(info) >= before:
                return False
            try:
                await bucket.delete(info, over=seen)
            except OvertakenError:
                return False
            return True

        return await self._with_bucket(delete_if_old, _PATIENCE_S)

    async def _with_bucket(self, ask: Callable[[Bucket], Awaitable[_T]], patience_s: float | None) -> _T:
        """What the bucket answers; the client lives in the thread beside."""

        async def call_bucket() -> _T:
            try:
                bucket = await self._open_bucket()
                async with asyncio.timeout(patience_s):
                    return await ask(bucket)
            except (NotFoundError, DigestMismatchError):
                self._bucket = None  # should it be the bucket itself that is gone, it is made again
                raise
            except APIError as problem:  # the broker answers, and will not: there is no room, or no leader
                self._bucket = None
                raise BackendError(f"the result store {self.url} failed: {first_line(problem)}") from problem
            except (NatsError, OSError, TimeoutError) as problem:
                await self._leave()
                raise BackendError(f"the result store {self.url} failed: {first_line(problem)}") from problem

        return await self._beside.call_async(call_bucket())

    async def _open_bucket(self) -> Bucket:
        async with self._connecting:
            if self._client is None or not self._client.is_connected:
                await self._leave()
                self._client = await self._connected()
            if self._bucket is None:
                stream = self._client.jetstream(timeout=_PATIENCE_S)
                config = ObjectStoreConfig(storage=StorageType.FILE, replicas=self._replicas)
                with suppress(BadRequestError):  # it is there, as somebody else wants it to be
                    await stream.create_object_store(self._name, config)
                self._bucket = Bucket(stream, self._name)
            return self._bucket

    async def _connected(self) -> Client:
        """Without the client's own reconnecting: what is asked while it is away is refused, and not held back."""
        client = Client()

        async def ignore(problem: Exception) -> None:
            """It shows in the call that meets it."""

        try:
            async with asyncio.timeout(_PATIENCE_S):
                await client.connect(
                    servers=[self._server],
                    name="noetl results",
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    connect_timeout=int(_PATIENCE_S),
                    error_cb=ignore,
                )
        except BaseException:
            await leave(client)
            raise
        return client

    async def _leave(self) -> None:
        client, self._client, self._bucket = self._client, None, None
        if client is not None:
            await leave(client)

    def close(self) -> None:
        if self._client is not None:
            self._beside.call(self._leave())
        super().close()


def _written_at(info: ObjectInfo) -> float:
    return datetime.fromisoformat(info.mtime).timestamp() if info.mtime else 0.0


def _is_bucket(name: str) -> bool:
    return name.replace("-", "").replace("_", "").isalnum() and name.isascii()
