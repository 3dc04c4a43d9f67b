"""Results in the object store of a NATS broker: nats://host:4222/bucket (RES-01, RES-02).

A missing bucket is created. Deleting the broker's data deletes these results too, so this store is never a default:
an operator has to choose it. After a lost connection the next call connects again; until that succeeds, every call
raises BackendError.

Concurrent writers do not overwrite each other: every change of an object's entry is a compare and set on the sequence
number of that entry. The driver's own `put` and `delete` are not. Other clients can read our objects as usual.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import BinaryIO, TypeVar
from urllib.parse import parse_qs, urlsplit, urlunsplit

import msgspec

from noetl.base.errors import BackendError, ToolError
from noetl.base.nats_connections import connect_client, leave
from noetl.store.results.files import file_checksum, is_checksum, key_of, table_key_of, verified, verify_file
from noetl.store.results.remote import OLD_S, RemoteResults, first_line

try:
    from nats.aio.client import Client
    from nats.errors import Error as NatsError
    from nats.js import JetStreamContext
    from nats.js.api import Header, ObjectInfo, ObjectMetaOptions, ObjectStoreConfig, PubAck, StorageType
    from nats.js.errors import APIError, BadRequestError, DigestMismatchError, NotFoundError
    from nats.js.object_store import ObjectStore
except ImportError:
    raise BackendError('results in a NATS broker need its driver: pip install "noetl-engine[nats]"') from None

_T = TypeVar("_T")
BUCKET = "noetl-results"
_PATIENCE_S = 5.0  # for one answer
_BYTES_PER_S = 1 << 20  # a slower transfer counts as broken
_TRIES = 5


class NatsResults(RemoteResults):
    """One object per value. `?replicas=3` sets how many brokers of a cluster store a new bucket."""

    store = "nats"

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        super().__init__(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])))  # no password in messages
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
                # Read again in every try: the sequence number makes the write a compare and set.
                info, seen = await bucket.entry(name)
                with suppress(OvertakenError):  # by another writer of the same value, or by garbage collection
                    if info is None:
                        # An attempt that was overtaken has read the body already.
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
                # The size is known only now, so the time for the transfer is set here and not by the caller.
                async with asyncio.timeout(_PATIENCE_S + (info.size or 0) / _BYTES_PER_S):
                    return await read_from(bucket, name)
            except TimeoutError:
                if not await bucket.holds(info):  # its chunks were deleted, and the driver would wait for them forever
                    raise NotFoundError from None
                raise

        try:
            return await self._with_bucket(read, None)
        except NotFoundError:
            raise ToolError("result.missing", f"the stored result {name} is gone") from None
        except DigestMismatchError:
            raise ToolError("result.corrupt", f"the stored result {name} differs from what was written") from None

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
                # Refused if a writer has touched it since: then an event is about to name it, and it stays.
                await bucket.delete(info, over=seen)
            except OvertakenError:
                return False
            return True

        return await self._with_bucket(delete_if_old, _PATIENCE_S)

    async def _with_bucket(self, ask: Callable[[Bucket], Awaitable[_T]], patience_s: float | None) -> _T:
        """The answer of the bucket. The client runs in the event loop of another thread."""

        async def call_bucket() -> _T:
            try:
                bucket = await self._open_bucket()
                async with asyncio.timeout(patience_s):
                    return await ask(bucket)
            except (NotFoundError, DigestMismatchError):
                self._bucket = None  # if the bucket itself is gone, the next call creates it
                raise
            except APIError as problem:  # the broker refuses: it has no room, or no leader
                self._bucket = None
                raise BackendError(f"the result store {self.url} failed: {first_line(problem)}") from problem
            except (NatsError, OSError, TimeoutError) as problem:
                await self._disconnect()
                raise BackendError(f"the result store {self.url} failed: {first_line(problem)}") from problem

        return await self._beside.call_async(call_bucket())

    async def _open_bucket(self) -> Bucket:
        # Several calls may find at once that there is no connection; one of them connects.
        async with self._connecting:
            if self._client is None or not self._client.is_connected:
                await self._disconnect()
                self._client = await self._connected()
            if self._bucket is None:
                stream = self._client.jetstream(timeout=_PATIENCE_S)
                config = ObjectStoreConfig(storage=StorageType.FILE, replicas=self._replicas)
                with suppress(BadRequestError):  # it exists, with the settings of its creator
                    await stream.create_object_store(self._name, config)
                self._bucket = Bucket(stream, self._name)
            return self._bucket

    async def _connected(self) -> Client:
        """A client without its own reconnecting: calls during an outage fail at once instead of waiting in a buffer."""
        client = Client()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await connect_client(client, self._server, name="noetl results")
        except BaseException:
            await leave(client)
            raise
        return client

    async def _disconnect(self) -> None:
        client, self._client, self._bucket = self._client, None, None
        if client is not None:
            await leave(client)

    def close(self) -> None:
        # Without a client there is no thread either, and `close` of an unused store must not start one.
        if self._client is not None:
            self._beside.call(self._disconnect())
        super().close()


def _written_at(info: ObjectInfo) -> float:
    return datetime.fromisoformat(info.mtime).timestamp() if info.mtime else 0.0


def _is_bucket(name: str) -> bool:
    return name.replace("-", "").replace("_", "").isalnum() and name.isascii()


CHUNK_BYTES = 128 * 1024
_WRONG_LAST_SEQUENCE = 10071  # an error code of NATS


class OvertakenError(Exception):
    """Another client has changed the entry meanwhile."""


class Bucket:
    def __init__(self, stream: JetStreamContext, name: str) -> None:
        self._js, self._name, self._stream = stream, name, f"OBJ_{name}"
        self._objects = ObjectStore(name=name, stream=self._stream, js=stream)

    async def entry(self, name: str) -> tuple[ObjectInfo | None, int]:
        """The entry of an object, None if there is none, and the sequence number that a change of it has to name."""
        try:
            found = await self._js.get_last_msg(self._stream, self._meta(name))
        except NotFoundError:
            return None, 0
        assert found.seq is not None
        info = ObjectInfo.from_response(msgspec.json.decode(found.data or b"{}"))
        return (None if info.deleted else info), found.seq

    async def put(self, name: str, body: BinaryIO, *, over: int) -> None:
        """Store a new object; readers do not see it before it is complete."""
        nuid, sha256, size = self._js._nc._nuid.next().decode(), hashlib.sha256(), 0
        async with self._or_nothing(nuid):
            # The chunks come before the entry: an upload that breaks off leaves no entry, and `_or_nothing` purges its
            # chunks.
            while chunk := body.read(CHUNK_BYTES):
                await self._js.publish(self._chunks(nuid), chunk, stream=self._stream)
                sha256.update(chunk)
                size += len(chunk)
            digest = base64.urlsafe_b64encode(sha256.digest()).decode()
            info = ObjectInfo(
                name=name,
                bucket=self._name,
                nuid=nuid,
                size=size,
                chunks=-(-size // CHUNK_BYTES),
                digest=f"SHA-256={digest}",
                mtime=_now(),
                options=ObjectMetaOptions(max_chunk_size=CHUNK_BYTES),
            )
            await self._write(info, over)

    async def touch(self, info: ObjectInfo, *, over: int) -> None:
        """Set the time of the entry to now. The chunks stay in place for concurrent readers."""
        info.mtime = _now()
        await self._write(info, over)

    async def delete(self, info: ObjectInfo, *, over: int) -> None:
        nuid, info.deleted, info.size, info.chunks, info.digest = info.nuid, True, 0, 0, ""
        # The entry first: a reader that finds it deleted never asks for chunks that are being purged.
        written = await self._write(info, over)
        await self._js.purge_stream(self._stream, subject=self._chunks(nuid))
        # Purge the deletion marker too, but no later entry.
        await self._js.purge_stream(self._stream, seq=written.seq + 1, subject=self._meta(info.name))

    async def body(self, name: str) -> bytes:
        """The whole object. Raises nats' ObjectNotFoundError and DigestMismatchError."""
        into = io.BytesIO()  # without it the driver copies the whole body at every chunk
        await self.read(name, into)
        return into.getvalue()

    async def read(self, name: str, into: io.BufferedIOBase) -> None:
        """Write the body into a file. Raises the same errors as `body`."""
        await self._objects.get(name, writeinto=into)

    async def holds(self, info: ObjectInfo) -> bool:
        """Whether the bucket has any chunk of this entry."""
        try:
            await self._js.get_last_msg(self._stream, self._chunks(info.nuid))
        except NotFoundError:
            return False
        return True

    async def entries(self) -> list[ObjectInfo]:
        try:
            return await self._objects.list(ignore_deletes=True)
        except NotFoundError:  # none at all
            return []

    @asynccontextmanager
    async def _or_nothing(self, nuid: str) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            await self._js.purge_stream(self._stream, subject=self._chunks(nuid))  # no entry names these chunks
            raise

    async def _write(self, info: ObjectInfo, over: int) -> PubAck:
        # A rollup replaces all earlier entries of the subject, so that one message is left for each object.
        headers: dict[str, str] = {Header.ROLLUP: "sub", Header.EXPECTED_LAST_SUBJECT_SEQUENCE: str(over)}
        try:
            return await self._js.publish(self._meta(info.name), msgspec.json.encode(info.as_dict()), headers=headers)
        except APIError as problem:
            if problem.err_code == _WRONG_LAST_SEQUENCE:
                raise OvertakenError(info.name) from None
            raise

    def _meta(self, name: str) -> str:
        return f"$O.{self._name}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    def _chunks(self, nuid: str) -> str:
        return f"$O.{self._name}.C.{nuid}"


def _now() -> str:
    return datetime.now(UTC).isoformat()
