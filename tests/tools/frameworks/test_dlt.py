"""`dlt` into DuckDB: real runs of a real dlt, in an environment of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.base.errors import RefusedError
from noetl.events.outcomes import Outcome
from noetl.operations.credentials import try_credential
from noetl.tools.frameworks.dlt import DltTool
from noetl.tools.registry import Registry
from tests.servers.data_frameworks import frameworks_python
from tests.servers.postgres import pg_auth, server  # noqa: F401  a fixture
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import error, outcome_of

pytestmark = [pytest.mark.timeout(900)]
SCRIPT = """
import dlt

@dlt.resource(table_name="orders", write_disposition="replace")
def orders(count):
    yield ({"id": number, "items": [{"sku": "a"}, {"sku": "b"}]} for number in range(count))

@dlt.resource
def broken():
    yield {"id": 1}
    raise ConnectionError("the source hung up")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SCRIPT)
    return tmp_path


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", f"dlt={frameworks_python()}")


async def loaded(folder: Path, /, **inputs: Any) -> Outcome:
    auth = {"url": "shop.duckdb"}
    wanted = {"destination": "duckdb", "dataset": "raw", "auth": auth, **inputs}
    return await outcome_of(DltTool(), wanted, data_folders=(str(folder),))


@pytest.mark.usefixtures("real")
async def test_a_resource_of_a_script_is_loaded_and_counted(folder: Path) -> None:
    done = await loaded(folder, script="shop.py", resource="orders", args={"count": 3}, pipeline="shop")

    assert done.error is None, done.error
    tables = done.result["tables"]
    assert (tables["orders"]["rows"], tables["orders__items"]["rows"], done.result["rows"]) == (3, 6, 9)
    assert "sku" in tables["orders__items"]["columns"]
    assert (done.result["pipeline"], done.result["dataset"], len(done.result["loads"])) == ("shop", "raw", 1)
    assert (folder / "shop.duckdb").is_file()


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_rows_are_merged_by_their_key(folder: Path) -> None:
    how = {"table": "people", "write_disposition": "merge", "key": "id"}

    await loaded(folder, data=[{"id": 1, "name": "ada"}, {"id": 2, "name": "bob"}], **how)
    again = await loaded(folder, data=[{"id": 2, "name": "eve"}], **how)

    assert again.error is None, again.error
    assert again.result["tables"]["people"]["rows"] == 1


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_an_exception_in_a_resource_is_the_error(folder: Path) -> None:
    failed = error(await loaded(folder, script="shop.py", resource="broken"))
    missing = error(await loaded(folder, script="shop.py", resource="nothing"))

    assert (failed.kind, failed.code, failed.retryable) == ("dlt.error", "ConnectionError", True)
    assert not missing.retryable
    assert "the source hung up" in failed.message
    assert 'has no "nothing"' in missing.message


@pytest.fixture
def line(pg_auth: dict[str, Any]) -> Iterator[Proxy]:  # noqa: F811
    with Proxy(f"{pg_auth['host']}/.s.PGSQL.5432") as line:
        yield line


@pytest.fixture
def warehouse(pg_auth: dict[str, Any], line: Proxy) -> dict[str, Any]:  # noqa: F811
    place = {"host": "127.0.0.1", "port": line.port, "database": pg_auth["database"]}
    return {"username": pg_auth["user"], "password": "a password of nobody", **place}


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_a_credential_is_tested_and_nothing_is_loaded(warehouse: dict[str, Any]) -> None:
    fields = {"destination": "postgres", **warehouse}

    assert await try_credential("warehouse", "dlt", fields, {}, Registry()) == "connected to postgres"


@pytest.mark.usefixtures("real")
async def test_a_rejected_credential_is_reported_with_the_database_message(warehouse: dict[str, Any]) -> None:
    fields = {"destination": "postgres", **warehouse, "username": "nobody_like_this"}
    with pytest.raises(RefusedError) as refused:
        await try_credential("warehouse", "dlt", fields, {}, Registry())

    assert 'role "nobody_like_this" does not exist' in str(refused.value)
    assert str(fields["password"]) not in str(refused.value)


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_a_connection_lost_in_the_middle_is_retryable(
    folder: Path, warehouse: dict[str, Any], line: Proxy
) -> None:
    """The second attempt replaces what the first has left, and every row is there once."""
    rows = [{"id": number, "word": "x" * 500} for number in range(4_000)]
    wanted = {"destination": "postgres", "auth": warehouse, "data": rows, "table": "people", "dataset": "lost"}
    wanted["write_disposition"] = "replace"
    line.rate = 200_000  # bytes in a second: the rows are on their way for ten
    task = asyncio.ensure_future(loaded(folder, **wanted))
    while line.carried < 600_000:
        assert not task.done(), task.result()
        await asyncio.sleep(0.05)
    with line.down():
        failed = error(await task)
    line.rate = None
    again = await loaded(folder, **wanted)

    assert (failed.kind, failed.retryable) == ("dlt.error", True), failed
    assert str(warehouse["password"]) not in str(failed)
    assert again.error is None, again.error
    count = "SELECT count(*), count(DISTINCT id) FROM lost.people"
    assert server().ask(count, warehouse["database"]) == "4000|4000"


@pytest.mark.parametrize(("fields", "said"), [({"host": "db"}, '"destination"'), ({"url": "x.csv"}, '"destination"')])
async def test_a_credential_without_a_destination_cannot_be_tested(
    fields: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", "dlt=/nowhere/python")  # nothing is started for it
    with pytest.raises(RefusedError, match=said):
        await try_credential("warehouse", "dlt", fields, {}, Registry())


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, 'write "script", or "data"'),
        ({"data": {"a": 1}, "table": "t"}, "data is a list of rows"),
        ({"data": []}, 'data needs "table"'),
        ({"script": "/etc/passwd", "resource": "x"}, "outside the folders"),
        ({"script": "shop.py", "resource": "a b"}, "resource"),
        ({"data": [], "table": "t", "destination": "../x"}, "destination"),
        ({"data": [], "table": "t", "write_disposition": "burn"}, "is not one of append"),
        ({"script": "shop.py", "resource": "orders", "args": [1]}, "args is a mapping"),
    ],
)
async def test_invalid_inputs_are_reported(folder: Path, inputs: dict[str, Any], said: str) -> None:
    failed = error(await loaded(folder, **inputs))

    assert failed.kind == "dlt.input"
    assert said in failed.message


async def test_a_sandbox_only_worker_refuses_dlt(folder: Path) -> None:
    wanted = {"destination": "duckdb", "data": [], "table": "t"}

    assert error(await outcome_of(DltTool(), wanted, sandbox=True)).kind == "sandbox.unavailable"
