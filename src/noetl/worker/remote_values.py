"""Values stored apart, as a worker without a store has them: by way of the server (RES-01, WRK-06).

Where a value will be is known before it is there, since its address is its content. So `keep` only begins to send it;
`settled` waits until the server has it, and no report that names it leaves earlier. `load` cannot wait, for it is
called in the middle of a template: what an order refers to is fetched beforehand, as much as there is room for. The
rest, which is next to nothing, is read by a blocking request, that holds up the worker's event loop, not its heartbeat.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError, ToolError
from noetl.engine.pipeline.payloads import MAX_RESULT_BYTES
from noetl.events.orders import Order, Report
from noetl.events.referenced_values import wanted_of
from noetl.events.references import Reference
from noetl.store.results.files import STORE, decoded_body, key_of, schema_hint
from noetl.worker.server_connection import PlainServerConnection, ServerConnection, ServerRefusedError

_Key = tuple[str, str]  # an execution, and the checksum of a value it stores: the same value may be masked in one only
_MOST_STORED = 4096
# So that the largest value fits, with another one.
CACHE_BYTES = 2 * MAX_RESULT_BYTES
_AT_A_TIME = 4
_PATIENCE_S = 120.0
_MISSING = "result.missing"


class RemoteValues:
    """`plain` makes a line for a blocking request, when one is first needed."""

    def __init__(self, line: ServerConnection, plain: Callable[[], PlainServerConnection]) -> None:
        self._line, self._make_plain = line, plain
        self._plain: PlainServerConnection | None = None
        self._bodies: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._under_way: dict[_Key, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(_AT_A_TIME)
        self.refused: dict[str, str] = {}  # values that the server would not have, and why
        # What the server is known to have. Only to save sending it twice: storing again is harmless.
        self._stored: OrderedDict[_Key, None] = OrderedDict()
        self._masked: dict[str, dict[str, Reference]] = {}  # by execution and checksum, what is stored instead

    def keep(self, value: Any, execution_id: str = "") -> Reference:
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
        """Return once every value that `what` names has been stored, or refused. Others may be on their way still: a
        value that cannot be stored holds up its own order only."""
        # Again until none is left: a value may be kept while this waits.
        while named := self._transfers_named_in(what):
            await asyncio.wait(named)
            crash_point("worker.object_stored")

    def _transfers_named_in(self, what: Any) -> list[asyncio.Task[None]]:
        if not self._under_way:
            return []
        text = msgspec.json.encode(what).decode()
        return [sending for (_, checksum), sending in self._under_way.items() if checksum in text]

    async def _send(self, key: _Key, body: bytes) -> None:
        execution_id, checksum = key
        params = {"execution_id": execution_id} if execution_id else None
        try:
            async with self._places:
                answer = await self._line.ask(
                    "PUT", f"/api/results/{checksum}", body=body, params=params, patience_s=_PATIENCE_S
                )
            self._note(key, msgspec.json.decode(answer.content, type=Reference))
        except ServerRefusedError as problem:
            self.refused[checksum] = str(problem)
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

    def as_stored(self, report: Report) -> Report:
        """The report with references to what the server has stored: a value that holds a secret which another worker of
        the execution was given is stored masked, under another name."""
        masked = self._masked.get(report.execution_id)
        if not masked:
            return report
        plain = _renamed(msgspec.json.decode(msgspec.json.encode(report)), masked)
        return msgspec.convert(plain, Report, str_keys=True)

    async def prefetch(self, order: Order) -> None:
        """Have at hand what an order refers to: its step names it, so it is likely to be read. The smallest first, and
        no more than can be at hand together."""
        wanted = {one.checksum: one.size for one in wanted_of(order, largest_bytes=MAX_RESULT_BYTES)}
        missing, room = [], CACHE_BYTES
        for checksum, size in sorted(wanted.items(), key=lambda one: one[1]):
            room -= size
            if checksum in self._bodies:
                self._bodies.move_to_end(checksum)  # or what is fetched now would take its place
            elif room >= 0:
                missing.append(checksum)
        await asyncio.gather(*map(self._fetch, missing))

    async def _fetch(self, checksum: str) -> None:
        async with self._places:
            try:
                answer = await self._line.ask("GET", f"/api/results/{checksum}", patience_s=_PATIENCE_S)
            except ServerRefusedError:
                return  # whoever reads it hears of it
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
            told = problem.problem.get("error")
            kind = told.get("kind", _MISSING) if isinstance(told, dict) else _MISSING
            raise ToolError(kind, f"the stored result {reference.key} cannot be read: {problem}") from None
        except BackendError as problem:
            raise ToolError(_MISSING, str(problem), retryable=True) from None

    def _remember(self, checksum: str, body: bytes) -> None:
        self._forget(checksum)
        self._bodies[checksum] = body
        self._size += len(body)
        while self._size > CACHE_BYTES and len(self._bodies) > 1:
            self._size -= len(self._bodies.popitem(last=False)[1])

    def _forget(self, checksum: str) -> None:
        self._size -= len(self._bodies.pop(checksum, b""))

    def close(self) -> None:
        for sending in self._under_way.values():
            sending.cancel()
        if self._plain is not None:
            self._plain.close()


def _renamed(value: Any, masked: Mapping[str, Reference]) -> Any:
    """Plain data in which references name what is stored instead. A tool may have told of one in its result."""
    match value:
        case dict():
            stored = masked.get(value.get("checksum", "")) if isinstance(value.get("checksum"), str) else None
            new = {key: _renamed(one, masked) for key, one in value.items()}
            return (
                new if stored is None else {**new, "key": stored.key, "checksum": stored.checksum, "size": stored.size}
            )
        case list():
            return [_renamed(one, masked) for one in value]
        case _:
            return value
