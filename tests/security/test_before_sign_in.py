"""Attacks of people who have shown no token: large and slow heads and bodies, connections that say nothing, and a flood
of refused requests.

What they cost is counted in connections, bytes and rows. The limits are small here, so that no test waits for long.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import RefusedError
from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import AccessTokens, TokenRequest
from noetl.server import housekeeping
from noetl.server.access.audit_writer import FOLDED_S, AuditWriter
from noetl.server.access.hosts import network_of
from noetl.server.connections import BoundedProtocol
from noetl.server.server_process import Served
from noetl.store.memory import MemoryStore
from tests.security.slow_key_values import SlowKeyValues
from tests.server.live import live
from tests.server.talking import talking


class Line:
    """A connection of raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        with suppress(ConnectionError):  # who is refused in the middle is told so in what was answered
            self._writer.write(data)
            await self._writer.drain()

    async def rest(self) -> bytes:
        """All that comes until the other side closes."""
        async with asyncio.timeout(60):
            found = b""
            with suppress(ConnectionError):
                while part := await self._reader.read(65536):
                    found += part
            return found

    async def status(self) -> int:
        """Of the next answer, which is read as far as that."""
        async with asyncio.timeout(60):
            return int((await self._reader.readline()).split()[1])

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def line(served: Served) -> AsyncIterator[Line]:
    made = Line(*await asyncio.open_connection(served.host, served.port))
    try:
        yield made
    finally:
        await made.close()


def head(*fields: str, path: str = "/api/health/live", method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: localhost", *fields]).encode() + b"\r\n"


def status_in(answer: bytes) -> int:
    return int(answer.split()[1])


@pytest.mark.parametrize(
    "attack",
    [
        head(*(f"x-{number}: y" for number in range(500))) + b"\r\n",
        head("x-large: " + "y" * 200_000) + b"\r\n",
        head(path="/" + "y" * 200_000) + b"\r\n",
        head(*(f"x-{number}: {'y' * 10_000}" for number in range(50))) + b"\r\n",
    ],
    ids=["many fields", "one large field", "a long address", "many large fields"],
)
async def test_an_oversized_request_head_is_refused(attack: bytes) -> None:
    async with live(workers=0) as (served, _, _), line(served) as mine:
        await mine.send(attack)
        answer = await mine.rest()

    assert status_in(answer) == 431
    assert b"65536 bytes and 100 fields at most" in answer


async def test_an_endless_request_head_is_read_up_to_the_limit() -> None:
    async with live(workers=0) as (served, _, _), line(served) as mine:
        await mine.send(head() + b"x-endless: ")
        sent, closed = 0, asyncio.ensure_future(mine.rest())
        while not closed.done() and sent < 60_000_000:
            await mine.send(b"y" * 65_536)
            sent += 65_536
            await asyncio.sleep(0)
        answer = await closed

    assert status_in(answer) == 431
    assert sent < 60_000_000, "the server has stopped it long before"


CHUNKED = (head("transfer-encoding: chunked", method="POST", path="/api/session") + b"\r\n2\r\n{}\r\n").decode()


@pytest.mark.parametrize("begun", [CHUNKED + "0\r\nx-endless: ", CHUNKED + "2;endless="], ids=["field", "extension"])
async def test_no_more_of_what_stands_behind_a_body_is_read_than_the_limit(begun: str) -> None:
    async with live(workers=0) as (served, _, _), line(served) as mine:
        await mine.send(begun.encode())
        sent, closed = 0, asyncio.ensure_future(mine.rest())
        while not closed.done() and sent < 20_000_000:
            await mine.send(b"y" * 65_536)
            sent += 65_536
            await asyncio.sleep(0.001)
        assert sent < 20_000_000, "the server has stopped it long before"
        await closed


@pytest.mark.req("SRV-04")
async def test_fields_behind_a_body_are_no_fields_of_its_head() -> None:
    async with live(workers=0, behind_proxy=True) as (served, _, talk), line(served) as mine:
        bearer = talk.client.headers["authorization"]
        whole = head(
            "transfer-encoding: chunked",
            "content-type: application/json",
            "x-forwarded-for: 192.0.2.1",
            "connection: close",
            method="POST",
            path="/api/validate",
        )
        whole += f"\r\n2\r\n{{}}\r\n0\r\nauthorization: {bearer}\r\nx-forwarded-for: 192.0.2.9\r\n\r\n".encode()
        await mine.send(whole)
        answer = await mine.rest()
        [row] = [row for row in await talk.services.store.audit.newest(limit=9) if row.outcome == "401"]

    assert status_in(answer) == 401
    assert row.address == "192.0.2.1"


async def test_an_ordinary_head_is_accepted_and_the_connection_reused() -> None:
    async with live(workers=0) as (served, _, _), line(served) as mine:
        fields = [f"x-{number}: {'y' * 300}" for number in range(90)]
        await mine.send((head(*fields) + b"\r\n") * 2)
        await mine.send(head("connection: close") + b"\r\n")
        answer = await mine.rest()

    assert answer.count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize("sent", [b"", b"GET /api/health/live HTTP/1.1\r\nhost: loc"], ids=["nothing", "half a head"])
async def test_a_connection_with_an_unfinished_head_is_closed(sent: bytes) -> None:
    async with live(workers=0, head_timeout_s=0.2) as (served, client, _), line(served) as mine:
        await mine.send(sent)
        answer = await mine.rest()
        living = await client.get("/api/health/live")

    assert answer == b"" if not sent else status_in(answer) == 408
    assert living.status_code == 200


async def test_a_connection_with_a_slow_body_is_closed() -> None:
    async with live(workers=0, body_timeout_s=0.5) as (served, _, _), line(served) as mine:
        about = ("content-type: application/json", "content-length: 1000000")
        await mine.send(head(*about, path="/api/session", method="POST") + b"\r\n")
        ended = asyncio.ensure_future(mine.rest())
        while not ended.done():  # a byte now and then earns no time worth speaking of
            await mine.send(b" ")
            await asyncio.sleep(0.05)

    assert ended.result() == b"" or status_in(ended.result()) in (408, 429)


async def test_a_connection_that_reads_no_response_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, abort = asyncio.Event(), BoundedProtocol.abort

    def note(connection: BoundedProtocol) -> None:
        abort(connection)
        closed.set()

    monkeypatch.setattr(BoundedProtocol, "abort", note)
    async with live(workers=0, stream_patience_s=0.3) as (served, client, _), line(served) as mine:
        asked = head(f"authorization: Bearer {served.first_token}", path="/openapi.json") + b"\r\n"
        await mine.send(asked * 200)  # more than all buffers on the way hold
        async with asyncio.timeout(60):
            await closed.wait()
        answers = await mine.rest()
        living = await client.get("/api/health/live")

    assert 0 < answers.count(b"HTTP/1.1 200") < 200
    assert living.status_code == 200


@pytest.mark.parametrize(
    "limits",
    [
        {"max_connections_per_address": 20},
        {"max_connections": 40, "trusted_proxies": ("127.0.0.1",)},  # where addresses tell nobody apart
    ],
    ids=["of an address", "in all"],
)
async def test_idle_connections_are_closed_for_new_ones(limits: dict[str, Any]) -> None:
    async with (
        live(workers=0, head_timeout_s=60, **limits) as (served, client, talk),
        silent(served, 60) as idle,
    ):
        living = await client.get("/api/health/live")
        mine = await talk.get("/api/executions")
        closed = [one for one in idle if await is_closed(one)]

    assert living.status_code == 200
    assert mine["executions"] == []
    assert len(closed) >= 40, "no more of them are kept than the limit"


async def test_an_authenticated_connection_is_not_closed_for_anonymous_ones() -> None:
    async with (
        live(workers=0, max_connections_per_address=5, head_timeout_s=60) as (served, _, _),
        line(served) as known,
    ):
        asked = head(f"authorization: Bearer {served.first_token}", path="/api/executions") + b"\r\n"
        await known.send(asked)
        first = await known.status()
        async with silent(served, 30):
            await known.send(asked)
            rest = asyncio.ensure_future(known.rest())
            await known.send(head("connection: close") + b"\r\n")
            answers = await rest

    assert first == 200
    assert answers.count(b"HTTP/1.1 200") == 2, "it was answered twice more over the same connection"


@asynccontextmanager
async def silent(served: Served, number: int) -> AsyncIterator[list[Line]]:
    """So many connections that say nothing."""
    made = [Line(*await asyncio.open_connection(served.host, served.port)) for _ in range(number)]
    try:
        yield made
    finally:
        for one in made:
            await one.close()


async def is_closed(one: Line) -> bool:
    try:
        async with asyncio.timeout(0.05):
            return await one._reader.read(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_the_open_file_limit_is_raised_to_the_system_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))

    assert housekeeping.raise_limit() == 4096
    assert asked == [(4096, 4096)]
    assert housekeeping.connection_limit(1024, 10_000) == 824


def audited(rows: list[Any]) -> list[tuple[str, str]]:
    return [(row.address, row.outcome) for row in rows]


async def test_many_refused_anonymous_requests_are_two_rows_of_the_audit_log() -> None:
    async with talking(workers=0) as talk:
        stranger, guesser = talk.with_token(None), talk.with_token("noetl_aaaaaaaaaa_" + "x" * 43)
        for client in (stranger, guesser):
            for number in range(15):
                assert (await client.get(f"/api/executions/{number}")).status_code == 401
            await client.aclose()
        at_once = await talk.services.store.audit.newest(limit=100)
        await talk.services.access.audit.write_folded()
        rows = await talk.services.store.audit.newest(limit=100)

    assert len(at_once) == 2, "the first of each reason is written before it is answered"
    assert len(rows) == 4
    assert sorted(row.object for row in rows if "14 more" in row.object) == sorted(
        row.object for row in rows if row.action == "refused 14 times"
    )
    assert {reason for row in rows for reason in ("no token", "a wrong token") if reason in row.object} == {
        "no token",
        "a wrong token",
    }


async def test_anonymous_requests_are_counted_by_network_and_time() -> None:
    clock, store = ManualClock(), MemoryStore()
    desk = AuditWriter(store.audit, clock)

    async def refused(address: str) -> None:
        scope = {"client": (address, 1), "path": "/x"}
        await desk.record_unauthenticated(scope, reason="no token", action="GET unknown", status=401)

    for number in range(1, 300):
        await refused(f"2001:db8:0:1::{number:x}")
    await refused("2001:db8:0:2::1")
    await refused("192.0.2.1")
    await refused("192.0.2.2")
    assert len(await store.audit.newest(limit=1000)) == 4
    clock.advance(FOLDED_S)
    await refused("2001:db8:0:1::7")
    rows = await store.audit.newest(limit=1000)

    assert len(rows) == 6, "the count of the first ten minutes, and the first of the next"
    assert [row.address for row in rows if row.action == "refused 298 times"] == ["2001:db8:0:1::/64"]


async def test_anonymous_requests_from_very_many_addresses_are_counted_together() -> None:
    clock, store = ManualClock(), MemoryStore()
    desk = AuditWriter(store.audit, clock)
    for number in range(3_000):
        scope = {"client": (f"10.1.{number // 250}.{number % 250}", 1), "path": "/x"}
        await desk.record_unauthenticated(scope, reason="no token", action="GET unknown", status=401)

    assert len(await store.audit.newest(limit=5000)) == 1_001


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1%eth0", "2001:db8::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::1", "::1"),
        ("-", "-"),
    ],
)
def test_addresses_of_one_network_are_counted_together(address: str, network: str) -> None:
    assert network_of(address) == network


async def test_the_last_administrator_token_cannot_be_revoked() -> None:
    clock, store = ManualClock(), MemoryStore()
    tokens = AccessTokens(store.key_values, clock)
    await tokens.create_first_admin()
    await tokens.create(TokenRequest(subject="reader", role=Role.VIEWER))
    with pytest.raises(RefusedError, match="the last token of an administrator"):
        await tokens.revoke("first")
    _, short = await tokens.create(TokenRequest(subject="short", role=Role.ADMIN, expires_in_s=10))
    clock.advance(11)
    with pytest.raises(RefusedError, match="noetl token create"):
        await tokens.revoke("first")
    assert await tokens.revoke(short.token_id) is not None, "what has expired is no longer needed"
    _, other = await tokens.create(TokenRequest(subject="other", role=Role.ADMIN))

    assert (await tokens.revoke("first")) is not None
    with pytest.raises(RefusedError):
        await tokens.revoke(other.token_id)


async def test_the_last_administrator_token_keeps_its_role_when_stored_again() -> None:
    tokens = AccessTokens(MemoryStore().key_values, ManualClock())
    chosen = "noetl_ofmine_abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
    await tokens.adopt(chosen, TokenRequest(subject="mine", role=Role.ADMIN))
    with pytest.raises(RefusedError, match="the last token of an administrator"):
        await tokens.adopt(chosen, TokenRequest(subject="mine", role=Role.VIEWER))
    await tokens.create(TokenRequest(subject="other", role=Role.ADMIN))

    assert (await tokens.adopt(chosen, TokenRequest(subject="mine", role=Role.VIEWER))).role is Role.VIEWER


async def test_two_administrators_that_revoke_each_other_concurrently_leave_one() -> None:
    key_values, clock = SlowKeyValues(), ManualClock()
    one, other = AccessTokens(key_values, clock), AccessTokens(key_values, clock)
    _, ann = await one.create(TokenRequest(subject="ann", role=Role.ADMIN))
    _, bob = await one.create(TokenRequest(subject="bob", role=Role.ADMIN))

    ended = await asyncio.gather(one.revoke(ann.token_id), other.revoke(bob.token_id), return_exceptions=True)

    assert any(isinstance(answer, RefusedError) for answer in ended)
    assert [token for token in await one.list() if token.is_alive(clock.now())]


async def test_the_api_explains_why_the_last_administrator_stays() -> None:
    async with talking(workers=0) as talk:
        answer = await talk.client.delete("/api/tokens/first")
        still = await talk.client.get("/api/tokens")

    assert answer.status_code == 409
    assert "create another one first" in answer.json()["detail"]
    assert still.status_code == 200


async def test_a_client_is_refused_if_all_connections_are_busy() -> None:
    """All of them are in the middle of something, so none can be closed for another."""
    async with (
        live(workers=0, max_connections_per_address=3, head_timeout_s=60, body_timeout_s=60) as (served, _, _),
        silent(served, 3) as busy,
    ):
        about = ("content-type: application/json", "content-length: 10")
        for one in busy:
            await one.send(head(*about, path="/api/session", method="POST") + b"\r\n")
        answer = b""
        async with asyncio.timeout(60):
            while not answer or status_in(answer) != 503:  # until all of them are being answered
                async with line(served) as mine:
                    await mine.send(head("connection: close") + b"\r\n")
                    answer = await mine.rest()

    assert b"retry-after: 2" in answer
