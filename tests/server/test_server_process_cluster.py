"""Several servers on one PostgreSQL: any of them takes any request, and workers of one hear of orders of the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import msgspec
import pytest

from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from noetl.server.configuration import ServerSettings
from noetl.server.server_process import Served, serving
from tests.contracts.stores import fresh_url
from tests.engine_script import playbook
from tests.servers import nats

WORK = """
workflow:
  - step: start
    tool: [{name: work, kind: python, code: "result = 1 + 1"}]
    next: {arcs: [{step: end}]}
  - step: end
    tool: [{name: last, kind: python, code: "result = 3"}]
"""


@pytest.mark.req("SRV-12")
@pytest.mark.parametrize("broker", [False, True], ids=["database rings", "NATS rings"])
async def test_the_worker_of_one_server_runs_orders_of_another(tmp_path: Path, broker: bool) -> None:
    settings = ServerSettings(
        db=fresh_url(),
        results=str(tmp_path / "results"),
        nats=nats.server().url if broker else None,
        port=0,
        local=True,
        drain_s=2,
    )
    working = msgspec.structs.replace(settings, workers=2)
    async with serving(settings) as front, serving(working) as back:
        token, _ = await front.services.access.tokens.create(TokenRequest(subject="me", role=Role.ADMIN))
        assert back.first_token is None
        async with _client(front, token) as one, _client(back, token) as two:
            await one.post("/api/catalog", json={"source": playbook(WORK)})
            started = await one.post("/api/executions", json={"path": "tests/test", "wait": 60})
            told = started.json()
            seen = (await two.get(f"/api/executions/{told['execution_id']}/result")).json()
            paused = await two.post("/api/executions", json={"path": "tests/test"})
            other = paused.json()["execution_id"]
            answers = await asyncio.gather(
                *(client.post(f"/api/executions/{other}/cancel") for client in (one, two) for _ in range(3))
            )
            events = (await one.get(f"/api/executions/{other}/events")).json()["events"]

    assert (told["status"], told["result"], seen["result"]) == ("completed", 3, 3), told
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["name"] for event in events].count("playbook.processed") == 1


def _client(served: Served, token: str) -> httpx2.AsyncClient:
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.AsyncClient(base_url=served.url, headers=headers, timeout=500, trust_env=False)
