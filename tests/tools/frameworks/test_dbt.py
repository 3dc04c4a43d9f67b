"""`dbt` on DuckDB: real runs of a real dbt, in an environment of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.base.errors import RefusedError
from noetl.events.outcomes import Outcome
from noetl.operations.credentials import try_credential
from noetl.tools.frameworks.dbt import DbtTool
from noetl.tools.interpreters import named_interpreter
from noetl.tools.registry import Registry, is_installed
from tests.servers.data_frameworks import frameworks_python
from tests.servers.postgres import pg_auth, server  # noqa: F401  a fixture
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import error, outcome_of

pytestmark = [pytest.mark.timeout(900)]
MODELS = {
    "orders": "{{ config(materialized='table') }} select * from range({{ var('n', 3) }}) t(id)",
    "totals": "select count(*) as n from {{ ref('orders') }}",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: shop\nversion: '1.0'\nprofile: shop\n")
    for name, text in MODELS.items():
        (folder / "models" / f"{name}.sql").write_text(text)
    return folder


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", f"dbt={frameworks_python()}")


async def built(project: Path, /, **inputs: Any) -> Outcome:
    more = {"data_folders": (str(project.parent),), **inputs.pop("more", {})}
    auth = {"adapter": "duckdb", "path": "shop.duckdb"}
    return await outcome_of(DbtTool(), {"project": "shop", "auth": auth, **inputs}, **more)


@pytest.mark.usefixtures("real")
async def test_a_project_is_built_and_its_models_are_listed_with_their_lineage(project: Path) -> None:
    printed = bytearray()

    done = await built(project, vars={"n": 5}, more={"write_output": lambda data, stream: printed.extend(data)})

    assert done.error is None, done.error
    orders, totals = done.result["nodes"]
    assert (orders["name"], orders["type"], orders["status"]) == ("orders", "model", "success")
    assert orders["children"] == ["model.shop.totals"]
    assert totals["parents"] == ["model.shop.orders"]
    assert done.result["counts"] == {"success": 2}
    assert b"PASS=2" in printed
    assert not (project / "target").exists(), "the folder of the project stays as it was"
    assert (project.parent / "shop.duckdb").is_file(), "a database without a folder is in the data folder"


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_a_failing_node_is_reported_in_its_own_words(project: Path) -> None:
    (project / "models/broken.sql").write_text("select nothing_like_this from {{ ref('orders') }}")

    failed = error(await built(project, select=["broken", "orders"], op="run"))

    assert failed.kind == "dbt.failed"
    assert "model.shop.broken" in failed.message
    assert "nothing_like_this" in failed.message
    assert {node["name"]: node["status"] for node in failed.details["nodes"]} == {
        "orders": "success",
        "broken": "error",
    }


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_an_unreadable_project_and_an_invalid_profile_are_errors(project: Path) -> None:
    unknown = error(await built(project, auth={"adapter": "nothing_like_this", "path": "x"}))
    (project / "models/broken.sql").write_text("{{ nothing_like_this( }}")

    unread = error(await built(project))

    assert unread.kind == "dbt.error"
    assert "broken" in unread.message
    assert unknown.kind == "dbt.error"
    assert "nothing_like_this" in unknown.message


@pytest.fixture
def line(pg_auth: dict[str, Any]) -> Iterator[Proxy]:  # noqa: F811
    with Proxy(f"{pg_auth['host']}/.s.PGSQL.5432") as line:
        yield line


@pytest.fixture
def warehouse(pg_auth: dict[str, Any], line: Proxy) -> dict[str, Any]:  # noqa: F811
    fields = {"adapter": "postgres", "schema": "public", "password": "a password of nobody", "port": line.port}
    return {**fields, "host": "127.0.0.1", "user": pg_auth["user"], "dbname": pg_auth["database"]}


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_a_credential_is_tested_without_a_project(warehouse: dict[str, Any]) -> None:
    assert await try_credential("warehouse", "dbt", warehouse, {}, Registry()) == "connected to postgres"


@pytest.mark.usefixtures("real")
async def test_a_rejected_credential_is_reported_with_the_database_message(warehouse: dict[str, Any]) -> None:
    fields = {**warehouse, "user": "nobody_like_this"}
    with pytest.raises(RefusedError) as refused:
        await try_credential("warehouse", "dbt", fields, {}, Registry())

    assert 'role "nobody_like_this" does not exist' in str(refused.value)
    assert str(fields["password"]) not in str(refused.value)


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_a_connection_lost_in_the_middle_is_retryable(
    project: Path, warehouse: dict[str, Any], line: Proxy
) -> None:
    (project / "models/slow.sql").write_text("{{ config(materialized='table') }} select 1 as a, pg_sleep(30)::text")
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND wait_event = 'PgSleep'"
    task = asyncio.ensure_future(built(project, auth=warehouse, select=["slow"], op="run"))
    while server().ask(asleep) == "0":
        assert not task.done(), task.result()
        await asyncio.sleep(0.1)
    with line.down():
        failed = error(await task)
    (project / "models/slow.sql").write_text("{{ config(materialized='table') }} select 1 as a")
    again = await built(project, auth=warehouse, select=["slow"], op="run")

    assert (failed.kind, failed.retryable) == ("dbt.failed", True), failed
    assert str(warehouse["password"]) not in str(failed)
    assert again.error is None, again.error


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"op": "destroy"}, "is not one of build, run"),
        ({"project": "/etc"}, "outside the folders"),
        ({"project": "."}, "has no dbt_project.yml"),
        ({"select": {"a": 1}}, "select is a text"),
        ({"vars": [1]}, "vars must be a mapping"),
        ({"auth": {"path": "x"}}, 'needs "adapter"'),
        ({"env": {"A B": 1}}, "is not a name of an environment variable"),
    ],
)
async def test_invalid_inputs_are_reported(project: Path, inputs: dict[str, Any], said: str) -> None:
    failed = error(await built(project, **inputs))

    assert failed.kind == "dbt.input"
    assert said in failed.message


def test_the_settings_name_the_interpreter_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", "dbt=/opt/dbt/bin/python, dlt=/opt/dlt/bin/python")

    assert named_interpreter("dbt") == "/opt/dbt/bin/python"
    assert named_interpreter("ray") is None
    assert is_installed("dbt")
    assert "dbt" in Registry().kinds()


def test_a_kind_without_its_extra_names_both_ways_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOETL_INTERPRETERS", raising=False)
    if is_installed("dbt"):
        pytest.skip("dbt is installed beside NoETL")

    said = Registry().refusal("dbt") or ""

    assert "noetl-engine[dbt]" in said
    assert "interpreters" in said
    assert json.dumps(said)
