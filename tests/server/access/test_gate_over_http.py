"""The gate behind a real HTTP server: malformed requests do not pass it either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from noetl.base.clock import SystemClock
from noetl.base.errors import RefusedError
from noetl.operations.tokens import AccessTokens
from noetl.server.configuration import ServerSettings
from noetl.server.server_process import Served, serving
from noetl.store.sqlite.store import SqliteStore


@pytest_asyncio.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    async with serving(ServerSettings(db=str(tmp_path / "store.db"), port=0)) as one:
        yield one


async def said(served: Served, request: bytes) -> bytes:
    """The first line of what the server answers."""
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(request)
    await writer.drain()
    async with asyncio.timeout(60):
        line = await reader.readline()
    writer.close()
    return line


def asking(served: Served, target: str, *, method: str = "GET", extra: str = "", host: str = "localhost") -> bytes:
    token = f"Authorization: Bearer {served.first_token}\r\n"
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{token}{extra}Connection: close\r\n\r\n".encode()


async def test_the_first_token_of_a_server_authenticates(served: Served) -> None:
    assert served.first_token is not None
    assert b" 200 " in await said(served, asking(served, "/api/tokens"))


async def test_malformed_requests_are_refused(served: Served) -> None:
    token = f"Authorization: Bearer {served.first_token}\r\n".encode()
    odd = {
        "no host": b"GET /api/tokens HTTP/1.1\r\n" + token + b"\r\n",
        "two hosts": b"GET /api/tokens HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n" + token + b"\r\n",
        "another host": asking(served, "/api/tokens", host="evil.example"),
        "rebound host with our port": asking(served, "/api/tokens", host=f"evil.example:{served.port}"),
        "double slash": asking(served, "//api/tokens"),
        "dots": asking(served, "/api/health/../tokens"),
        "another case": asking(served, "/API/tokens"),
        "a slash behind": asking(served, "/api/tokens/"),
        "NUL": asking(served, "/api/tokens%00"),
        "a folded header": asking(served, "/api/tokens", extra="X-A: b\r\n c: d\r\nAuthorization: Bearer x\r\n"),
        "two tokens": asking(served, "/api/tokens", extra=f"authorization: Bearer {served.first_token}\r\n"),
        "another method": asking(served, "/api/tokens", method="TRACE"),
    }
    for name, request in odd.items():
        line = await said(served, request)
        assert line.split(b" ")[1:2] in ([b"400"], [b"401"], [b"404"], [b"405"], [b"421"]), (name, line)


async def test_a_websocket_is_refused(served: Served) -> None:
    upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    line = await said(
        served,
        f"GET /api/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n{upgrade}\r\n".encode(),
    )

    assert b" 101 " not in line
    assert b" 200 " not in line


async def test_a_server_that_may_not_listen_creates_no_token(tmp_path: Path) -> None:
    """Else its next start would find one that nobody has ever read."""
    settings = ServerSettings(db=str(tmp_path / "store.db"), host="0.0.0.0", port=0)
    with pytest.raises(RefusedError, match="noetl token create"):
        async with serving(settings):
            pass

    store = SqliteStore.open(tmp_path / "store.db")
    assert not await AccessTokens(store.key_values, SystemClock()).any_exist()
    await store.close()
