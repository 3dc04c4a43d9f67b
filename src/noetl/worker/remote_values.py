"""Large values of a remote worker, stored and read through the server (RES-01, WRK-06). Also tables, which are sent as
files.

The address of a value is the hash of its content, so it is known before the value is stored. `keep` only begins the
upload; `settled` waits for its end, and no report that names the value is sent before. `load` is called inside
templates and cannot await: values that an order refers to are fetched before it runs, as far as the cache has room. The
few others are read by a blocking request, which blocks the worker's event loop but not its heartbeat.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec

from noetl.base.crash_points import crash_point
from noetl.base.durations import retry_delay_s
from noetl.base.errors import BackendError, ToolError
from noetl.engine.pipeline.payloads import MAX_RESULT_BYTES
from noetl.events.large_values import wanted_of
from noetl.events.orders import Order, Report
from noetl.events.outcomes import PARQUET, Reference
from noetl.store.results.files import STORE, decoded_body, file_checksum, key_of, schema_hint, verify_file
from noetl.worker.attempt import Sleep
from noetl.worker.server_connection import (
    PlainServerConnection,
    ServerConnection,
    ServerRefusedError,
    is_passing,
    refusal,
)

_Key = tuple[str, str]  # an execution and the checksum of a value: the same value may be masked in one execution only
_MOST_STORED = 4096
# Room for the largest value and another one.
CACHE_BYTES = 2 * MAX_RESULT_BYTES
_AT_A_TIME = 4
_PATIENCE_S = 120.0
_MISSING = "result.missing"
_T = TypeVar("_T")
_BLOCK_BYTES = 1 << 20
_TIMES = httpx2.Timeout(15.0, read=300.0, write=120.0)  # the server searches a table for secrets before it answers


class RemoteValues:
    """Those of the worker `worker_id`. `plain` makes the connection for blocking requests, on first use."""

    def __init__(
        self, connection: ServerConnection, plain: Callable[[], PlainServerConnection], worker_id: str
    ) -> None:
        self._connection, self._make_plain, self._worker_id = connection, plain, worker_id
        self._plain: PlainServerConnection | None = None
        self._bodies: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._under_way: dict[_Key, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(_AT_A_TIME)
        self._refused: dict[_Key, str] = {}  # values that the server refused, with the reason
        # Values that the server has, to avoid sending them twice. Sending again would be harmless.
        self._stored: OrderedDict[_Key, None] = OrderedDict()
        # By execution and checksum, the masked value that is stored instead.
        self._masked: dict[str, dict[str, Reference]] = {}

    def keep(self, value: Any, execution_id: str) -> Reference:
        body = msgspec.json.encode(value)
        checksum = hashlib.sha256(body).hexdigest()
        key = execution_id, checksum
        if key not in self._under_way and key not in self._stored:
            self._under_way[key] = asyncio.ensure_future(self._send(key, body))
        self._remember(checksum, body)
        return Reference(
            store=STORE, key=key_of(checksum), checksum=checksum, size=len(body), schema_hint=schema_hint(value)
        )

    async def settled(self, what: Any) -> None:
        """Return once every value that `what` names is stored or refused. It does not wait for other uploads: a value
        that cannot be stored delays its own order only."""
        # Repeated until none is left: a new upload may begin while this waits.
        while named := self._transfers_named_in(what):
            await asyncio.wait(named)
            crash_point("worker.object_stored")

    def _transfers_named_in(self, what: Any) -> list[asyncio.Task[None]]:
        if not self._under_way:
            return []
        # A search in the text: a reference may be anywhere in a result, and other text never equals a checksum.
        text = msgspec.json.encode(what).decode()
        return [sending for (_, checksum), sending in self._under_way.items() if checksum in text]

    async def _send(self, key: _Key, body: bytes) -> None:
        execution_id, checksum = key
        try:
            async with self._places:
                answer = await self._connection.ask(
                    "PUT",
                    f"/api/results/{checksum}",
                    body=body,
                    params={"worker_id": self._worker_id, "execution_id": execution_id},
                    patience_s=_PATIENCE_S,
                )
            self._note(key, msgspec.json.decode(answer.content, type=Reference))
            # It was refused while another worker had the order; this one has got the order again.
            self._refused.pop(key, None)
        except ServerRefusedError as problem:
            # Recorded, since `keep` has returned a reference already: the report that names it is not sent, with this
            # reason.
            self._refused[key] = str(problem)
            self._forget(checksum)
        finally:
            del self._under_way[key]

    def _note(self, key: _Key, stored: Reference) -> None:
        execution_id, checksum = key
        self._stored[key] = None
        if stored.checksum != checksum:
            self._masked.setdefault(execution_id, {})[checksum] = stored
        while len(self._stored) > _MOST_STORED:
            (old_id, old), _ = self._stored.popitem(last=False)
            self._masked.get(old_id, {}).pop(old, None)

    def refusal_of(self, report: Report) -> str | None:
        """Why the server has not stored a value that the report names; None if it has stored all."""
        if not self._refused:
            return None
        text = msgspec.json.encode(report).decode()
        refused = self._refused.items()
        return next((why for (of, name), why in refused if of == report.execution_id and name in text), None)

    def as_stored(self, report: Report) -> Report:
        """The report with references to what the server has stored. The server masks secrets that other workers of the
        execution have received, and then stores the value under another name."""
        masked = self._masked.get(report.execution_id)
        if not masked:
            return report
        plain = _with_stored_references(msgspec.json.decode(msgspec.json.encode(report)), masked)
        return msgspec.convert(plain, Report, str_keys=True)

    async def prefetch(self, order: Order) -> None:
        """Fetch the values that an order refers to: its step names them, so it is likely to read them. The smallest
        first, and no more than the cache holds."""
        wanted = {one.checksum: one.size for one in wanted_of(order, largest_bytes=MAX_RESULT_BYTES)}
        missing, room = [], CACHE_BYTES
        for checksum, size in sorted(wanted.items(), key=lambda one: one[1]):
            room -= size
            if checksum in self._bodies:
                self._bodies.move_to_end(checksum)  # or the new values would evict it
            elif room >= 0:
                missing.append(checksum)
        await asyncio.gather(*map(self._fetch, missing))

    async def _fetch(self, checksum: str) -> None:
        async with self._places:
            try:
                answer = await self._connection.ask("GET", f"/api/results/{checksum}", patience_s=_PATIENCE_S)
            except ServerRefusedError:
                return  # `load` raises the error
        self._remember(checksum, answer.content)

    def load(self, reference: Reference) -> Any:
        body = self._bodies.get(reference.checksum)
        if body is None:
            body = self._read(reference)
            self._remember(reference.checksum, body)
        else:
            self._bodies.move_to_end(reference.checksum)
        return decoded_body(reference, body)

    def _read(self, reference: Reference) -> bytes:
        if self._plain is None:
            self._plain = self._make_plain()
        try:
            return self._plain.ask("GET", f"/api/results/{reference.checksum}").content
        except ServerRefusedError as problem:
            error = problem.problem.get("error")
            kind = error.get("kind", _MISSING) if isinstance(error, dict) else _MISSING
            raise ToolError(kind, f"the stored result {reference.key} cannot be read: {problem}") from None
        except BackendError as problem:
            raise ToolError(_MISSING, str(problem), retryable=True) from None

    def _remember(self, checksum: str, body: bytes) -> None:
        self._forget(checksum)
        self._bodies[checksum] = body
        self._size += len(body)
        # The newest one always stays: it is about to be read.
        while self._size > CACHE_BYTES and len(self._bodies) > 1:
            self._size -= len(self._bodies.popitem(last=False)[1])

    def _forget(self, checksum: str) -> None:
        self._size -= len(self._bodies.pop(checksum, b""))

    def close(self) -> None:
        for sending in self._under_way.values():
            sending.cancel()
        if self._plain is not None:
            self._plain.close()


def _with_stored_references(value: Any, masked: Mapping[str, Reference]) -> Any:
    """Plain data with references to the masked values. A tool may have put a reference into its result."""
    match value:
        case dict():
            stored = masked.get(value.get("checksum", "")) if isinstance(value.get("checksum"), str) else None
            new = {key: _with_stored_references(one, masked) for key, one in value.items()}
            return (
                new if stored is None else {**new, "key": stored.key, "checksum": stored.checksum, "size": stored.size}
            )
        case list():
            return [_with_stored_references(one, masked) for one in value]
        case _:
            return value


# Tables of a remote worker, through the server: files, streamed in both directions in constant memory.
#
# A request that breaks off is repeated from its beginning, for as long as its task lasts: the server keeps no part of
# an incomplete upload, and a download is compared with its checksum. Each of these requests has its own connection,
# since they take long and are rare.


class RemoteTables:
    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        worker_id: str,
        *,
        verify: ssl.SSLContext | bool = True,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._url, self._headers, self._worker_id = url.rstrip("/"), dict(headers), worker_id
        self._verify, self._sleep = verify, sleep

    async def keep(self, file: Path, execution_id: str) -> Reference:
        """Upload a table. The reference may name another content: the server masks secrets that it knows."""
        checksum, _ = await asyncio.to_thread(file_checksum, file)

        async def sent(client: httpx2.AsyncClient) -> Reference:
            answer = await client.put(
                f"/api/results/{checksum}/table",
                params={"worker_id": self._worker_id, "execution_id": execution_id},
                content=_blocks(file),
                headers={"Content-Type": PARQUET, "Content-Length": str(file.stat().st_size)},
            )
            _raise_refusal(answer, answer.content)
            return msgspec.json.decode(answer.content, type=Reference)

        return await self._with_retries(sent)

    async def fetch(self, reference: Reference, into: Path) -> None:
        async def received(client: httpx2.AsyncClient) -> None:
            async with client.stream("GET", f"/api/results/{reference.checksum}/table") as answer:
                _raise_refusal(answer, b"" if answer.is_success else await answer.aread())
                with into.open("wb") as file:
                    async for block in answer.aiter_bytes(_BLOCK_BYTES):
                        await asyncio.to_thread(file.write, block)

        await self._with_retries(received)
        await asyncio.to_thread(verify_file, reference.checksum, into)

    async def _with_retries(self, request: Callable[[httpx2.AsyncClient], Awaitable[_T]]) -> _T:
        tries = 0
        while True:
            options = {"headers": self._headers, "verify": self._verify, "timeout": _TIMES, "trust_env": False}
            try:
                async with httpx2.AsyncClient(base_url=self._url, **options) as client:  # type: ignore[arg-type]
                    return await request(client)
            except ServerRefusedError as problem:
                error = problem.problem.get("error")
                kind = error.get("kind") if isinstance(error, dict) else None
                missing = "result.missing" if problem.status == 404 else "result.table"
                raise ToolError(str(kind or missing), f"the table was refused: {problem}") from None
            except (httpx2.TransportError, BackendError):
                await self._sleep(retry_delay_s(tries, None))
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
