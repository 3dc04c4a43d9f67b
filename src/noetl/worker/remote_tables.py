"""Tables of a worker without a store, by way of the server: files, streamed in both directions in flat memory.

A request that breaks off is made again from its beginning, for as long as its task lasts: the server keeps nothing of
an upload that is not whole, and what was fetched is compared with its checksum. Unlike other requests of a worker
these have a connection of their own each, since they take long and there are few.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import httpx2
import msgspec

from noetl.base.errors import BackendError, ToolError
from noetl.events.references import PARQUET, Reference
from noetl.store.results.files import file_checksum, verify_file
from noetl.worker.attempt import Sleep
from noetl.worker.backoff import delay_s
from noetl.worker.server_connection import ServerRefusedError, is_passing, refusal

_T = TypeVar("_T")
_BLOCK_BYTES = 1 << 20
_TIMES = httpx2.Timeout(15.0, read=300.0, write=120.0)  # the server looks through a table before it answers


class RemoteTables:
    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        verify: ssl.SSLContext | bool = True,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._url, self._headers, self._verify, self._sleep = url.rstrip("/"), dict(headers), verify, sleep

    async def keep(self, file: Path, execution_id: str) -> Reference:
        """What the server has stored, which may be less: it masks what it knows to be secret."""
        checksum, _ = await asyncio.to_thread(file_checksum, file)

        async def sent(client: httpx2.AsyncClient) -> Reference:
            answer = await client.put(
                f"/api/results/{checksum}/table",
                params={"execution_id": execution_id},
                content=_blocks(file),
                headers={"Content-Type": PARQUET, "Content-Length": str(file.stat().st_size)},
            )
            _raise_refusal(answer, answer.content)
            return msgspec.json.decode(answer.content, type=Reference)

        return await self._repeated(sent)

    async def fetch(self, reference: Reference, into: Path) -> None:
        async def received(client: httpx2.AsyncClient) -> None:
            async with client.stream("GET", f"/api/results/{reference.checksum}/table") as answer:
                _raise_refusal(answer, b"" if answer.is_success else await answer.aread())
                with into.open("wb") as file:
                    async for block in answer.aiter_bytes(_BLOCK_BYTES):
                        await asyncio.to_thread(file.write, block)

        await self._repeated(received)
        await asyncio.to_thread(verify_file, reference.checksum, into)

    async def _repeated(self, request: Callable[[httpx2.AsyncClient], Awaitable[_T]]) -> _T:
        tries = 0
        while True:
            options = {"headers": self._headers, "verify": self._verify, "timeout": _TIMES, "trust_env": False}
            try:
                async with httpx2.AsyncClient(base_url=self._url, **options) as client:  # type: ignore[arg-type]
                    return await request(client)
            except ServerRefusedError as problem:
                told = problem.problem.get("error")
                kind = told.get("kind") if isinstance(told, dict) else None
                missing = "result.missing" if problem.status == 404 else "result.table"
                raise ToolError(str(kind or missing), f"the table was refused: {problem}") from None
            except (httpx2.TransportError, BackendError):
                await self._sleep(delay_s(tries, None))
                tries += 1


async def _blocks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as source:
        while block := await asyncio.to_thread(source.read, _BLOCK_BYTES):
            yield block


def _raise_refusal(answer: httpx2.Response, content: bytes) -> None:
    if answer.is_success:
        return
    refused = refusal(answer.status_code, answer.reason_phrase, content, str(answer.request.url))
    raise BackendError(str(refused)) if is_passing(answer.status_code) else refused
