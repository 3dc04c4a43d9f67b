"""A server with a private certificate is trusted only by clients that were given its authority."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from noetl.base.errors import RefusedError
from noetl.base.tls_trust import trusting
from noetl.client import AsyncClient, Client
from noetl.client.api_request import UnreachableError
from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from noetl.tools.registry import Registry
from noetl.worker.http1 import HttpConnection, HttpConnectionError
from noetl.worker.remote_worker import RemoteWorker, WorkerSpec
from tests.engine_script import playbook
from tests.playbook_runs import Scripted
from tests.server.live import live
from tests.server.talking import HELLO
from tests.servers.certificates import Certificates, make_certificates

UNTRUSTED = "its certificate is not trusted here: name the authority that made it with --ca"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


async def test_a_client_connects_with_the_private_authority_only(files: Certificates) -> None:
    async with live(tls_cert=str(files.cert), tls_key=str(files.key)) as (served, _, _):
        async with AsyncClient(served.url, served.first_token, ca=files.ca) as client:
            assert (await client.who_am_i()).role == "admin"
        async with AsyncClient(served.url, served.first_token) as client:
            with pytest.raises(UnreachableError, match=UNTRUSTED):
                await client.who_am_i()

        def blocking(ca: Path | None) -> str:
            with Client(served.url, served.first_token, ca=ca) as client:
                return client.who_am_i().role

        assert served.url.startswith("https://")
        assert await asyncio.to_thread(blocking, files.ca) == "admin"
        with pytest.raises(UnreachableError, match=UNTRUSTED):
            await asyncio.to_thread(blocking, None)


@pytest.mark.req("WRK-01")
async def test_a_worker_runs_a_playbook_over_tls(files: Certificates) -> None:
    async with live(tls_cert=str(files.cert), tls_key=str(files.key)) as (served, _, talk):
        token, _ = await talk.services.access.tokens.create(
            TokenRequest(subject="a worker", role=Role.WORKER, pools=("default",))
        )
        spec = WorkerSpec(url=served.url, token=token, name="w", concurrency=1)
        station = RemoteWorker(spec, Registry({"python": Scripted(work=7)}), verify=trusting(files.ca))
        serving = asyncio.ensure_future(station.serve())
        async with AsyncClient(served.url, served.first_token, ca=files.ca) as client:
            await client.register(playbook(HELLO))
            started = await client.start("tests/test", wait=60)
        station.drain()
        async with asyncio.timeout(60):
            assert await serving == 0

        assert (started.status, started.result) == ("completed", 7)


async def test_a_worker_without_the_authority_reports_the_missing_setting(files: Certificates) -> None:
    async with live(tls_cert=str(files.cert), tls_key=str(files.key)) as (served, _, _):
        said: list[str] = []
        spec = WorkerSpec(url=served.url, token=served.first_token, name="w")
        station = RemoteWorker(spec, Registry(), say=said.append)
        serving = asyncio.ensure_future(station.serve())
        async with asyncio.timeout(60):
            while not said:
                await asyncio.sleep(0.01)
            station.stop()
            await serving

        assert UNTRUSTED in said[0]


async def test_a_certificate_for_another_host_name_is_rejected(files: Certificates) -> None:
    """The authority vouches for localhost and 127.0.0.1, and for no other address of this machine."""
    async with live(tls_cert=str(files.cert), tls_key=str(files.key)) as (served, _, _):
        wire = HttpConnection(f"https://127.0.0.2:{served.port}", {}, verify=trusting(files.ca))
        with pytest.raises(HttpConnectionError):
            await wire.ask("GET", "/api/health/live", timeout_s=60)
        await wire.close()


@pytest.mark.parametrize(("text", "words"), [(None, "cannot be read"), ("no certificate", "not a PEM certificate")])
def test_a_file_without_a_certificate_authority_is_rejected(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)

    with pytest.raises(RefusedError, match=words):
        Client("https://127.0.0.1:1", ca=file)


async def test_a_plain_http_client_loads_no_authorities_and_trusts_no_certificate(files: Certificates) -> None:
    for_plain = trusting(None, "http://127.0.0.1:1")

    assert isinstance(for_plain, ssl.SSLContext)
    assert for_plain.cert_store_stats()["x509"] == 0
    async with live(tls_cert=str(files.cert), tls_key=str(files.key)) as (served, _, _):
        wire = HttpConnection(served.url, {}, verify=for_plain)
        with pytest.raises(HttpConnectionError):
            await wire.ask("GET", "/api/health/live", timeout_s=60)
        await wire.close()
