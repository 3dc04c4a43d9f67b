"""TLS: certificates are checked against the name in the URL, unless the task says otherwise."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from noetl.base.addresses.connections import GuardedBackend
from noetl.base.addresses.policy import OPEN, Address, AddressGuard, literal
from noetl.base.errors import ToolError
from tests.servers.certificates import NAME, certificate  # noqa: F401  a fixture
from tests.servers.http import HttpServer, reply
from tests.tools.http_requesting import context, http_tool


async def here(host: str, port: int) -> Sequence[Address]:
    address = literal("127.0.0.1")
    assert address is not None
    return [address]


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:  # noqa: F811
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    return tls


async def test_an_untrusted_certificate_is_refused_unless_verification_is_off(tls: ssl.SSLContext) -> None:
    backend = GuardedBackend(AddressGuard(OPEN, resolve=here))
    async with HttpServer({"/a": reply(json=1)}, tls=tls) as server, http_tool(backend=backend) as tool:
        url = f"https://{NAME}:{server.port}/a"
        with pytest.raises(ToolError, match="TLS failed") as caught:
            await tool.run({"url": url}, context())
        found = await tool.run({"url": url}, context({"verify_ssl": False}))

    assert (caught.value.kind, caught.value.details["code"]) == ("http.transport", "tls")
    assert not caught.value.retryable
    assert found.result["data"] == 1


async def test_an_unverified_connection_is_not_reused_for_a_verified_request(tls: ssl.SSLContext) -> None:
    backend = GuardedBackend(AddressGuard(OPEN, resolve=here))
    async with HttpServer({"/a": reply(json=1)}, tls=tls) as server, http_tool(backend=backend) as tool:
        url = f"https://{NAME}:{server.port}/a"
        await tool.run({"url": url}, context({"verify_ssl": False}))
        with pytest.raises(ToolError, match="TLS failed"):
            await tool.run({"url": url}, context())

    assert len(server.requests) == 1


async def test_tls_uses_the_host_name_although_the_address_is_fixed(
    tls: ssl.SSLContext,
    certificate: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    asked: list[str | None] = []
    tls.sni_callback = lambda _socket, name, _context: asked.append(name)
    backend = GuardedBackend(AddressGuard(OPEN, resolve=here))
    async with HttpServer({"/a": reply(json=1)}, tls=tls) as server, http_tool(backend=backend) as tool:
        found = await tool.run({"url": f"https://{NAME}:{server.port}/a"}, context())
        with pytest.raises(ToolError, match="TLS failed"):
            await tool.run({"url": f"https://other.example:{server.port}/a"}, context())

    assert found.result["data"] == 1
    assert asked == [NAME, "other.example"]
