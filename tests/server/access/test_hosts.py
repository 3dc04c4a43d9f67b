"""Names that a server answers to: the loopback ones, those of the operator, wildcards; health answers to any."""

from __future__ import annotations

import pytest

from noetl.base.errors import RefusedError
from noetl.server.access.hosts import Hosts
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
def test_a_wildcard_stands_for_every_name_below_its_own(host: str, known: bool) -> None:
    assert HOSTS.know(host) is known


@pytest.mark.parametrize("written", ["*", "*.", "*.org", "a.*.org", "https://noetl.example.org", "two words", ""])
def test_what_is_no_name_is_refused_with_a_way_out(written: str) -> None:
    with pytest.raises(RefusedError, match=r"write noetl\.example\.org, or \*\.example\.org"):
        Hosts([written])


@pytest.mark.parametrize("host", ["10.2.3.4:8082", "noetl-server", "anything.example"])
async def test_probes_are_answered_whatever_host_they_name_and_nothing_else_is(host: str) -> None:
    async with talking(workers=0) as talk:
        probes = [await talk.client.get(f"/api/health/{which}", headers={"host": host}) for which in ("live", "ready")]
        other = await talk.client.get("/api/executions", headers={"host": host})
        deeper = await talk.client.get("/api/health/live/x", headers={"host": host})

    assert [probe.status_code for probe in probes] == [200, 200]
    assert (other.status_code, deeper.status_code) == (421, 421)
