"""The fixtures of v2-case against a real HTTP server and a real PostgreSQL (O-32)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.operations.embedded import RunResult, run_net
from noetl.tools.registry import Registry
from tests.engine_script import net_of
from tests.secrets.vaults import new_keychain, new_vault
from tests.servers.http import HttpServer, Reply, Request, reply
from tests.servers.postgres import pg_auth, server  # noqa: F401  a fixture
from tests.worker.case_running import fixture


async def run(name: str, payload: dict[str, Any], auth: dict[str, Any], db: Path, text: str | None = None) -> RunResult:
    clock, vault = ManualClock(), new_vault()
    await vault.set("pg_creds", auth, kind="postgres")

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        await asyncio.sleep(0)

    return await run_net(
        net_of(text or fixture(name)),
        payload=payload,
        db=db / "noetl.db",
        tools=Registry(),
        clock=clock,
        sleep=sleep,
        keychain=new_keychain(vault=vault, clock=clock),
    )


def events(refusals: int) -> Any:
    left = [429] * refusals

    def answer(request: Request) -> Reply:
        if left:
            return reply(left.pop())
        page = int(request.query["page"])
        return reply(json={"items": [[1, 2], [3]][page - 1], "page": page, "has_more": page < 2})

    return answer


@pytest.mark.req("V2C-16", "V2C-17", "V2C-21")
async def test_pages_are_fetched_and_stored(tmp_path: Path, pg_auth: dict[str, Any]) -> None:  # noqa: F811
    server().ask("DROP TABLE IF EXISTS raw_events; CREATE TABLE raw_events (page jsonb, iter int)", pg_auth["database"])

    async with HttpServer({"/events": events(2)}) as http:
        result = await run("F-001-B", {"api_url": f"{http.url}/events"}, pg_auth, tmp_path)

    assert (result.status, result.ctx) == ("completed", {"all_items": [1, 2, 3]})
    assert [request.query["page"] for request in http.requests] == ["1", "1", "1", "2"]
    rows = server().ask("SELECT iter, page->>'items' FROM raw_events ORDER BY iter", pg_auth["database"])
    assert rows.splitlines() == ["1|[1, 2]", "2|[3]"]


@pytest.mark.req("V2C-06", "V2C-09")
@pytest.mark.parametrize(("status", "rows"), [(200, "1"), (500, "0")])
async def test_a_rule_stores_the_response(
    status: int,
    rows: str,
    tmp_path: Path,
    pg_auth: dict[str, Any],  # noqa: F811
) -> None:
    server().ask("DROP TABLE IF EXISTS ok; CREATE TABLE ok (n int)", pg_auth["database"])

    async with HttpServer({"/x": reply(status, json={"n": 5})}) as http:
        result = await run("F-001-C", {"url": f"{http.url}/x"}, pg_auth, tmp_path)

    assert result.status == "completed"
    assert server().ask("SELECT count(*) FROM ok", pg_auth["database"]) == rows
    assert result.ctx == ({"n": 5} if status == 200 else {})


@pytest.mark.req("V2C-21")
async def test_vars_read_the_returned_row(tmp_path: Path, pg_auth: dict[str, Any]) -> None:  # noqa: F811
    sql = "DROP TABLE IF EXISTS users; CREATE TABLE users (user_id int, email text);"
    sql += "INSERT INTO users VALUES (7, 'a@b')"
    server().ask(sql, pg_auth["database"])

    result = await run("F-001-D", {}, pg_auth, tmp_path)

    assert (result.status, result.ctx) == ("completed", {"user_id": 7, "user_email": "a@b"})


@pytest.mark.req("V2C-07", "V2C-10")
async def test_an_inclusive_gateway_runs_all_matching_rules_in_order(
    tmp_path: Path,
    pg_auth: dict[str, Any],  # noqa: F811
) -> None:
    server().ask("DROP TABLE IF EXISTS audit_log; CREATE TABLE audit_log (id int)", pg_auth["database"])
    text = fixture("F-002-B").replace(
        "INSERT INTO audit_log ...", "INSERT INTO audit_log VALUES ({{ result.order_id }})"
    )

    async with HttpServer({"*": reply(json={})}) as http:
        payload = {"notification_api": http.url, "fraud_check_api": f"{http.url}/fraud"}
        result = await run("F-002-B", payload, pg_auth, tmp_path, text)

    assert result.status == "completed", result.error
    assert [(one.method, one.path) for one in http.requests] == [("POST", "/email"), ("GET", "/fraud")]
    assert server().ask("SELECT id FROM audit_log", pg_auth["database"]) == "7"
