"""A client that disconnects before its request is complete causes no error in the server."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.registry import Collector

from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from tests.server.live import live

OURS = ("noetl", "uvicorn")  # asyncio may tell of what another test has left behind


@pytest.mark.req("WRK-03")
@pytest.mark.parametrize("path", ["/api/orders/heartbeat", "/api/orders/turn", "/api/workers"])
async def test_a_worker_that_disconnects_during_a_request_is_not_an_error(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with live() as (served, _, talk):
        token, _ = await talk.services.access.tokens.create(
            TokenRequest(subject="a worker", role=Role.WORKER, pools=("default",))
        )
        _, writer = await asyncio.open_connection(served.host, served.port)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {token}\r\n"
            'Noetl-Protocol: 1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"worker_id": '
        )
        writer.write(head.encode())
        await writer.drain()
        meters = talk.services.listeners.meters.requests
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(60):
            while not (told := [one for one in samples(meters) if one["route"] == path]):
                await asyncio.sleep(0.01)

    assert {one["status"] for one in told} == {"499"}
    assert "unexpected" not in caplog.text
    errors = [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]
    assert not [record for record in errors if record.name.startswith(OURS)]


def samples(meter: Collector) -> list[dict[str, str]]:
    """The labels of what was counted."""
    return [sample.labels for family in meter.collect() for sample in family.samples]
