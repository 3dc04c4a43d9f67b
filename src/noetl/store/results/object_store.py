"""Results in an object store (s3://, gs://, az://, memory://), named by the SHA-256 of their content (RES-01, RES-02).

What the provider needs (region, keys, endpoint) comes from its usual environment variables. A value is written once:
equal ones have equal names, so whoever comes second finds it there.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from noetl.base.errors import BackendError, ToolError
from noetl.store.results.files import (
    file_checksum,
    is_checksum,
    key_of,
    missing_table,
    table_key_of,
    verified,
    verify_file,
)
from noetl.store.results.remote import OLD_S, RemoteResults, first_line

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
            raise BackendError(f"results at {url} need an object store: install noetl-engine[storage]") from None
        super().__init__(url)
        self._objects = obstore
        try:
            self._store = from_url(url)
        except (BaseError, OSError, ValueError) as problem:
            raise BackendError(f"results cannot be kept at {url}: {first_line(problem)}") from problem

    async def send(self, body: bytes) -> None:
        from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError, PreconditionError

        key = key_of(hashlib.sha256(body).hexdigest())
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
        """Write it over itself when it is old: whoever collects what nobody names sees that somebody is about to."""
        written_at = (await self._objects.head_async(self._store, key))["last_modified"]
        if datetime.now(UTC) - written_at > timedelta(seconds=OLD_S):
            await self._objects.put_async(self._store, key, body)

    async def fetch(self, checksum: str) -> bytes:
        from obstore.exceptions import BaseError

        key = key_of(checksum)
        try:
            found = await self._objects.get_async(self._store, key)
            body = bytes(await found.bytes_async())
        except FileNotFoundError:
            raise ToolError("result.missing", f"the stored result {key} is gone") from None
        except (BaseError, OSError) as problem:
            raise self._failed(problem) from problem
        return verified(checksum, body)

    async def send_file(self, file: Path) -> str:
        from obstore.exceptions import BaseError

        checksum, _ = await asyncio.to_thread(file_checksum, file)
        try:
            # In parts, a few of which are in memory; an upload that breaks off leaves no object.
            await self._objects.put_async(self._store, table_key_of(checksum), file, chunk_size=_PART_BYTES)
        except (BaseError, OSError) as problem:
            raise self._failed(problem) from problem
        return checksum

    async def fetch_file(self, checksum: str, into: Path) -> None:
        from obstore.exceptions import BaseError

        try:
            found = await self._objects.get_async(self._store, table_key_of(checksum))
            with into.open("wb") as file:
                async for chunk in found.stream(min_chunk_size=_PART_BYTES):
                    await asyncio.to_thread(file.write, chunk)
        except FileNotFoundError:
            raise missing_table(checksum) from None
        except (BaseError, OSError) as problem:
            raise self._failed(problem) from problem
        await asyncio.to_thread(verify_file, checksum, into)

    async def listed(self, *, before: float) -> list[str]:
        """Those of a page at a time: a bucket may hold millions."""
        moment = datetime.fromtimestamp(before, UTC)

        def old() -> list[str]:
            pages = self._objects.list(self._store)
            paths = (one["path"] for page in pages for one in page if one["last_modified"] < moment)
            names = (path.rpartition("/")[2].removesuffix(".json").removesuffix(".parquet") for path in paths)
            return [name for name in names if is_checksum(name)]

        return await asyncio.to_thread(old)

    async def dropped(self, checksum: str, *, before: float) -> bool:
        return await self._dropped(key_of(checksum), before) or await self._dropped(table_key_of(checksum), before)

    async def _dropped(self, key: str, before: float) -> bool:
        from obstore.exceptions import BaseError

        try:
            # Looked at again just before it is deleted: somebody may have put it since it was listed.
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
