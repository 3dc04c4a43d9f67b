"""Names that a server answers to: the loopback ones, those of the operator, wildcards; health answers to any.
Also where requests come from: of proxies, only a trusted one is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from noetl.base.errors import RefusedError
from noetl.server.access.hosts import Hosts, trusted_proxies
from noetl.server.configuration import ServerSettings
from noetl.server.server_process import serving
from tests.server.talking import talking

HOSTS = Hosts(["noetl.example.org:443", "*.apps.example.org"])


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost:8082", True),
        ("noetl.example.org", True),
        ("NOETL.example.org:9", True),
        ("a.apps.example.org", True),
        ("a.b.apps.example.org:443", True),
        ("apps.example.org", False),
        ("evilapps.example.org", False),
        ("a.apps.example.org.evil.example", False),
        ("example.org", False),
        ("*.apps.example.org", False),
    ],
)
def test_a_wildcard_matches_every_name_below_its_domain(host: str, known: bool) -> None:
    assert HOSTS.know(host) is known


@pytest.mark.parametrize("written", ["*", "*.", "*.org", "a.*.org", "https://noetl.example.org", "two words", ""])
def test_an_invalid_host_name_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(RefusedError, match=r"write noetl\.example\.org, or \*\.example\.org"):
        Hosts([written])


@pytest.mark.parametrize("host", ["10.2.3.4:8082", "noetl-server", "anything.example"])
async def test_health_probes_are_answered_for_any_host_name_and_nothing_else_is(host: str) -> None:
    async with talking(workers=0) as talk:
        probes = [await talk.client.get(f"/api/health/{which}", headers={"host": host}) for which in ("live", "ready")]
        other = await talk.client.get("/api/executions", headers={"host": host})
        deeper = await talk.client.get("/api/health/live/x", headers={"host": host})

    assert [probe.status_code for probe in probes] == [200, 200]
    assert (other.status_code, deeper.status_code) == (421, 421)


CLIENT = "203.0.113.7"


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"behind_proxy": True}, CLIENT),
        ({"trusted_proxies": ("127.0.0.1",)}, CLIENT),
        ({"behind_proxy": True, "trusted_proxies": ("127.0.0.0/8", "10.0.0.0/8")}, CLIENT),
        ({"behind_proxy": True, "trusted_proxies": ("10.0.0.0/8",)}, "127.0.0.1"),
        ({}, "127.0.0.1"),
    ],
)
async def test_a_trusted_proxy_sets_the_client_address(
    given: dict[str, Any], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    settings = ServerSettings(db=f"{tmp_path}/noetl.db", port=0, **given)
    async with serving(settings) as served, httpx2.AsyncClient(base_url=served.url, timeout=500) as client:
        # Whoever asks can write what they like before the address that the proxy adds.
        forwarded = {"x-forwarded-for": f"198.51.100.1, {CLIENT}"}
        await client.get("/api/executions", headers={"authorization": "Bearer wrong", **forwarded})
        await served.services.access.audit.write_folded()
        entries = await served.services.store.audit.newest()

    assert {row.address for row in entries} == {address}


def test_an_invalid_network_is_refused_with_an_example() -> None:
    with pytest.raises(RefusedError, match=r'--trusted-proxy "proxy.example" is not an address: write one like'):
        trusted_proxies(["10.0.0.1", "proxy.example"])


def test_local_proxies_are_trusted_by_default() -> None:
    assert trusted_proxies([]) == ["127.0.0.0/8", "::1/128"]
    assert trusted_proxies(["10.1.2.3/8"]) == ["10.0.0.0/8"]
