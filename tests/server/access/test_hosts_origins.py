"""Where requests come from, also through proxies: only a trusted one is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from noetl.base.errors import RefusedError
from noetl.server.access.hosts import trusted_proxies
from noetl.server.configuration import ServerSettings
from noetl.server.server_process import serving

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
async def test_the_address_of_a_request_is_that_of_a_trusted_proxys_client(
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


def test_what_is_no_network_is_refused_with_a_way_out() -> None:
    with pytest.raises(RefusedError, match=r'--trusted-proxy "proxy.example" is not an address: write one like'):
        trusted_proxies(["10.0.0.1", "proxy.example"])


def test_without_any_the_proxies_of_this_machine_are_trusted() -> None:
    assert trusted_proxies([]) == ["127.0.0.0/8", "::1/128"]
    assert trusted_proxies(["10.1.2.3/8"]) == ["10.0.0.0/8"]
