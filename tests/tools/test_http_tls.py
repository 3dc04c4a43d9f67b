"""TLS: certificates are checked against the name in the URL, unless the task says otherwise."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from noetl.base.addresses.connections import GuardedBackend
from noetl.base.addresses.guard import AddressGuard
from noetl.base.addresses.policy import OPEN, Address, literal
from noetl.base.errors import ToolError
from tests.servers.http import HttpServer, reply
from tests.tools.http_requesting import context, http_tool

NAME = "api.example"


async def here(host: str, port: int) -> Sequence[Address]:
    address = literal("127.0.0.1")
    assert address is not None
    return [address]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for `api.example` that nobody but itself has signed, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    return tls


async def test_a_certificate_nobody_vouches_for_is_refused_unless_the_task_says_otherwise(tls: ssl.SSLContext) -> None:
    backend = GuardedBackend(AddressGuard(OPEN, resolve=here))
    async with HttpServer({"/a": reply(json=1)}, tls=tls) as server, http_tool(backend=backend) as tool:
        url = f"https://{NAME}:{server.port}/a"
        with pytest.raises(ToolError, match="TLS failed") as caught:
            await tool.run({"url": url}, context())
        found = await tool.run({"url": url}, context({"verify_ssl": False}))

    assert (caught.value.kind, caught.value.details["code"]) == ("http.transport", "tls")
    assert not caught.value.retryable
    assert found.result["data"] == 1


async def test_a_connection_that_was_not_checked_serves_no_request_that_wants_it_checked(tls: ssl.SSLContext) -> None:
    backend = GuardedBackend(AddressGuard(OPEN, resolve=here))
    async with HttpServer({"/a": reply(json=1)}, tls=tls) as server, http_tool(backend=backend) as tool:
        url = f"https://{NAME}:{server.port}/a"
        await tool.run({"url": url}, context({"verify_ssl": False}))
        with pytest.raises(ToolError, match="TLS failed"):
            await tool.run({"url": url}, context())

    assert len(server.requests) == 1


async def test_the_name_is_kept_for_tls_though_the_address_is_reached(
    tls: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch
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
