"""A bucket of NATS' object store, written so that nobody loses what another puts: every change of an object's entry
says which entry it has seen. The driver's own `put` and `delete` do not; others read our objects as any other.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec
from nats.js import JetStreamContext
from nats.js.api import Header, ObjectInfo, ObjectMetaOptions, PubAck
from nats.js.errors import APIError, NotFoundError
from nats.js.object_store import ObjectStore

CHUNK_BYTES = 128 * 1024
_WRONG_LAST_SEQUENCE = 10071  # the server's code


class OvertakenError(Exception):
    """Somebody else has changed the entry meanwhile."""


class Bucket:
    def __init__(self, stream: JetStreamContext, name: str) -> None:
        self._js, self._name, self._stream = stream, name, f"OBJ_{name}"
        self._objects = ObjectStore(name=name, stream=self._stream, js=stream)

    async def entry(self, name: str) -> tuple[ObjectInfo | None, int]:
        """The entry of an object, and the number a change of it has to name; None where there is none."""
        try:
            found = await self._js.get_last_msg(self._stream, self._meta(name))
        except NotFoundError:
            return None, 0
        assert found.seq is not None
        info = ObjectInfo.from_response(msgspec.json.decode(found.data or b"{}"))
        return (None if info.deleted else info), found.seq

    async def put(self, name: str, body: BinaryIO, *, over: int) -> None:
        """Store a new object; nobody sees it before it is whole."""
        nuid, sha256, size = self._js._nc._nuid.next().decode(), hashlib.sha256(), 0
        async with self._or_nothing(nuid):
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
        """Its time is now; what it holds stays where it is, for those who read it at this moment."""
        info.mtime = _now()
        await self._write(info, over)

    async def delete(self, info: ObjectInfo, *, over: int) -> None:
        nuid, info.deleted, info.size, info.chunks, info.digest = info.nuid, True, 0, 0, ""
        written = await self._write(info, over)
        await self._js.purge_stream(self._stream, subject=self._chunks(nuid))
        # what says that it was there goes as well, and nothing that came after it
        await self._js.purge_stream(self._stream, seq=written.seq + 1, subject=self._meta(info.name))

    async def body(self, name: str) -> bytes:
        """nats' ObjectNotFoundError and DigestMismatchError."""
        into = io.BytesIO()  # the driver's own gathering copies what it has at every chunk
        await self.read(name, into)
        return into.getvalue()

    async def read(self, name: str, into: io.BufferedIOBase) -> None:
        """The same, into a file."""
        await self._objects.get(name, writeinto=into)

    async def holds(self, info: ObjectInfo) -> bool:
        """Whether anything of what the entry promises is there."""
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
            await self._js.purge_stream(self._stream, subject=self._chunks(nuid))  # half an object is nobody's
            raise

    async def _write(self, info: ObjectInfo, over: int) -> PubAck:
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
