"""Reports of strangers and of others change nothing: the store is the same before and after (F17, P5)."""

from __future__ import annotations

from pathlib import Path

import httpx2
import msgspec
import pytest

from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from noetl.store.sqlite.store import SqliteStore
from tests.server.talking import PROTOCOL, Talk, talking
from tests.server.worker_turns import begun, done, turn

TABLES = ("event", "execution", "orders", "wait", "task", "message", "request", "net", "catalog", "credential")


async def contents(store: SqliteStore) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables but those that note who asked what, and when."""
    return {table: await store.ask(f"SELECT * FROM {table} ORDER BY 1, 2") for table in TABLES}


async def forgeries(talk: Talk, worker: httpx2.AsyncClient) -> dict[str, httpx2.AsyncClient]:
    pools = TokenRequest(subject="gone", role=Role.WORKER, pools=("default",))
    text, token = await talk.services.access.tokens.create(pools)
    await talk.services.access.tokens.revoke(token.token_id)
    given = worker.headers["authorization"].removeprefix("Bearer ")
    return {
        "nobody": talk.with_token(None, **PROTOCOL),
        "nothing": talk.with_token("nothing", **PROTOCOL),
        "revoked": talk.with_token(text, **PROTOCOL),
        "cut short": talk.with_token(given[:-1], **PROTOCOL),
        "changed": talk.with_token(given[:-1] + ("a" if given[-1] != "a" else "b"), **PROTOCOL),
        "upper case": talk.with_token(given.upper(), **PROTOCOL),
        "a viewer": await talk.as_role(Role.VIEWER),
        "an operator": await talk.as_role(Role.OPERATOR),
        "an admin": talk.client,
        "of another pool": await talk.as_role(Role.WORKER, pools=("gpu",)),
        "another worker": await talk.as_role(Role.WORKER),
    }


@pytest.mark.req("SRV-04")
async def test_a_forged_report_changes_nothing(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "store.db")
    async with talking(workers=0, store=store) as talk:
        worker, _ = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        report = msgspec.json.encode(
            {"worker_id": worker.worker_id, "reports": [done(worker, order)], "capacity": 0, "pools": ["default"]}
        )
        beat = {"worker_id": worker.worker_id, "leases": {order.order_id: order.lease_epoch}}
        before = await contents(store)
        for name, client in (await forgeries(talk, worker)).items():
            headers = {"content-type": "application/json", **PROTOCOL}
            for url in ("/api/orders/turn", "/api/orders/turn/", "//api/orders/turn", "/api/orders%2Fturn"):
                answer = await client.post(url, content=report, headers=headers)
                assert answer.status_code in (401, 403, 404, 429), (name, url, answer.text)
            for override in ("x-http-method-override", "x-original-url", "x-rewrite-url"):
                answer = await client.post("/api/orders/turn", content=report, headers={**headers, override: "GET"})
                assert answer.status_code in (401, 403, 429), (name, override)
            assert (await client.post("/api/orders/heartbeat", json=beat, headers=PROTOCOL)).status_code in (
                401,
                403,
                429,
            )
            assert await contents(store) == before, name

        assert (await turn(worker, done(worker, order))).verdicts == ("accepted",), "and the true one is taken"
    await store.close()
