"""The examples of whole families of tools run against real counterparts: a bucket, a broker, a mail server, a machine,
a model, a container engine, dlt and dbt, a cluster. What each leaves there is looked at from the other side."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from noetl.events.outcomes import Outcome
from noetl.tools.messaging.tool import RedisTool
from noetl.tools.storage.tool import StorageTool
from tests.cli.running import call
from tests.examples.running import EXAMPLES, Ran, example_run
from tests.servers.brokers import PASSWORD, redis_server
from tests.servers.data_frameworks import dask_cluster, frameworks_python
from tests.servers.http import HttpServer, Request, reply
from tests.servers.lakes import lake_interpreters  # noqa: F401  a fixture
from tests.servers.mail import MailServer
from tests.servers.object_stores import Bucket, s3_bucket
from tests.servers.podman import IMAGE, podman
from tests.servers.programs import PORT, ServedProgram
from tests.servers.ssh import ssh_machine
from tests.tools.sql_tasks import outcome_of
from tools.demo_api import DemoApi

pytestmark = [pytest.mark.timeout(900)]  # the first run installs the counterparts
READ = "SELECT shop, orders FROM main.shop_revenue ORDER BY shop"
HOOK = "/services/T000/B000/a-secret-of-this-hook"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data folder of the test's own: master key and default store."""
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))


async def stored(folder: Path, name: str, kind: str, fields: Any) -> None:
    """A credential, put there as the examples' comments say."""
    command = ("credential", "set", name, "--type", kind, "--db", str(folder / "noetl.db"))
    code, _, told = await asyncio.to_thread(call, *command, stdin=json.dumps(fields))
    assert code == 0, told


async def result_of(name: str, folder: Path, /, allow: frozenset[str] = frozenset(), **payload: Any) -> Any:
    ran = await example_run(name, folder, payload, allow)
    assert ran.result.ok, ran.result.error
    return ran.result.result


# Storage and mail.


async def test_files_of_a_bucket_become_rows_and_a_mail_reports_their_counts(tmp_path: Path) -> None:
    bucket, tool = s3_bucket(), StorageTool()
    first = "id,day,shop,total\n1,2026-11-02,Oslo,19.90\n2,2026-11-03,Lima,7.00\n"
    second = "id,day,shop,total\n2,2026-11-03,Lima,8.00\n3,2026-11-03,Kyoto,120.50\n"
    try:
        for name, text in [("a.csv", first), ("b.csv", second), ("notes.txt", "not an order")]:
            await _objects(tool, bucket, "put", f"inbox/{name}", data=text)
        with MailServer() as mail:
            await stored(tmp_path, "lake", "s3", bucket.auth)
            await stored(tmp_path, "mail", "email", mail.auth)

            result = await result_of("bucket_to_table", tmp_path, bucket=bucket.url)
            again = await example_run("bucket_to_table", tmp_path, {"bucket": bucket.url})
        left = await _objects(tool, bucket, "list", "")
    finally:
        await tool.close()

    assert [(one["file"], one["rows"]) for one in result["files"]] == [("inbox/a.csv", 2), ("inbox/b.csv", 2)]
    assert result["orders"] == 3
    assert again.result.ok
    assert len(mail.messages) == 1, "nothing new came, so nobody is told"
    assert mail.messages[0]["subject"] == "4 rows of 2 files"
    assert "3 orders now, 148.4 in all" in str(mail.messages[0].get_content())
    assert [one["key"] for one in left.result["objects"]] == ["inbox/notes.txt", "lake/a.parquet", "lake/b.parquet"]


@pytest.mark.usefixtures("lake_interpreters")
async def test_a_lake_example_stores_its_files_in_a_bucket(tmp_path: Path) -> None:
    bucket, tool = s3_bucket(), StorageTool()
    await stored(tmp_path, "lake_keys", "s3", bucket.auth)

    totals = await result_of("lake_in_bucket", tmp_path, bucket=bucket.url, orders=9000)
    left = await _objects(tool, bucket, "list", "lake")
    await tool.close()

    assert totals == [{"shop": f"shop {number}", "orders": 3000} for number in range(3)]
    assert left.result["count"] > 0


async def _objects(tool: StorageTool, bucket: Bucket, op: str, key: str, **inputs: Any) -> Outcome:
    done = await outcome_of(tool, {"op": op, "url": f"{bucket.url}/{key}", "auth": bucket.auth, **inputs})
    assert done.error is None, done.error
    return done


# A broker.


async def test_stream_messages_become_rows_once_and_invalid_ones_are_set_aside(tmp_path: Path) -> None:
    auth = {"host": "127.0.0.1", "port": redis_server().port, "password": PASSWORD}
    key, tool = f"orders-{tmp_path.name}", RedisTool()
    await stored(tmp_path, "stream", "redis", auth)
    try:
        for number in range(7):
            value: Any = {"id": number, "shop": "Oslo", "total": 1.5} if number != 3 else "what is this"
            await _redis(tool, auth, "stream_add", key, data=value)

        first = await result_of("order_stream", tmp_path, key=key, batch=4)
        await _redis(tool, auth, "stream_add", key, data={"id": 7, "shop": "Lima", "total": 10})
        second = await result_of("order_stream", tmp_path, key=key, batch=4)
        rejected = await _redis(tool, auth, "pop", f"{key}:rejected", limit=10)
    finally:
        await tool.close()

    assert first == [{"orders": 6, "total": 9.0}]
    assert second == [{"orders": 7, "total": 19.0}]
    assert rejected.result["values"] == ["what is this"]


async def _redis(tool: RedisTool, auth: dict[str, Any], op: str, key: str, **inputs: Any) -> Outcome:
    done = await outcome_of(tool, {"op": op, "key": key, "auth": auth, **inputs})
    assert done.error is None, done.error
    return done


# Mail and chat.


@pytest.mark.parametrize(
    ("answer", "mails", "said"),
    [
        ("250 kept", 1, "Orders of 2026-11-03: 2, 127.5 in all"),
        ("554 no such mailbox", 0, "The orders of 2026-11-03 were not mailed: "),
    ],
)
async def test_a_report_is_mailed_as_a_spreadsheet_and_posted_to_the_channel(
    tmp_path: Path, answer: str, mails: int, said: str
) -> None:
    with MailServer(answer) as mail:
        async with HttpServer({HOOK: reply(body=b"ok")}) as chat:
            await stored(tmp_path, "mail", "email", mail.auth)
            await stored(tmp_path, "team", "slack", {"webhook_url": chat.url + HOOK})

            ran = await example_run("daily_report", tmp_path, {})

    assert ran.result.ok, ran.result.error
    assert len(mail.messages) == mails
    assert [part.get_filename() for one in mail.messages for part in one.iter_attachments()] == ["2026-11-03.xlsx"][
        :mails
    ]
    assert [one.json["text"].startswith(said) for one in chat.requests] == [True]


# Another machine.


async def test_deliveries_are_checked_loaded_and_answered_with_receipts(tmp_path: Path) -> None:
    far = tmp_path / "far"
    for name in ("outbox", "receipts"):
        (far / name).mkdir(parents=True)
    (far / "outbox/monday.csv").write_text("sku,amount\ncup,4\ntea,10\n")
    (far / "outbox/tuesday.csv").write_text("sku,amount\ntea,7\n")
    (far / "outbox/broken.csv").write_text("sku,amount\nspoon,many\n")
    async with ssh_machine(far) as machine:
        await stored(tmp_path, "partner", "ssh", machine.auth)

        result = await result_of("partner_files", tmp_path, shell_outbox=str(far / "outbox"))

    assert result["taken"] == [{"file": "monday.csv", "rows": 2}, {"file": "tuesday.csv", "rows": 1}]
    assert (result["failed"], result["stock"]) == (1, {"skus": 2, "amount": 11})
    assert [one.name for one in (far / "outbox").iterdir()] == ["broken.csv"]
    assert json.loads((far / "receipts/monday.csv.json").read_text())["rows"] == 2


# A model, and a server of tools.


async def test_complaints_are_classified_and_an_invalid_answer_is_requested_again(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    asked: list[str] = []

    def model(request: Request) -> Any:
        text = request.json["messages"][-1]["content"]
        asked.append(text)
        value: Any = {"topic": "price" if "dear" in text else "delivery", "urgent": "today" in text}
        if "dear" in text and asked.count(text) == 1:
            value = {"topic": "money"}
        chunk = {"model": "m-1", "choices": [{"delta": {"content": json.dumps(value)}, "finish_reason": "stop"}]}
        body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
        return reply(body=body.encode(), headers={"content-type": "text/event-stream"})

    program = Path(__file__).parents[1] / "tools/standin_server.py"
    tools = ServedProgram([sys.executable, str(program), "http", PORT])
    try:
        async with HttpServer({"POST /v1/chat/completions": model}) as server:
            await stored(tmp_path, "model", "llm", {"token": "k-123456"})
            places = {"mcp_url": f"http://127.0.0.1:{tools.port}/mcp", "llm_url": f"{server.url}/v1"}

            ran: Ran = await example_run("sort_complaints", tmp_path, places)
    finally:
        tools.stop()

    assert ran.result.ok, ran.result.error
    assert [one["topic"] for one in ran.result.result["complaints"]] == ["delivery", "delivery", "price"]
    assert ran.result.result["urgent"] == ["2026-11-03/1"]
    assert (len(asked), ran.slept) == (4, [2])
    assert {one.headers["authorization"] for one in server.requests} == {"Bearer k-123456"}


# A container.


@pytest.mark.xdist_group("podman")
async def test_a_container_profiles_a_file_and_its_artifact_is_read(tmp_path: Path) -> None:
    engine = podman()
    await stored(tmp_path, "engine", "container", {"url": engine.auth})

    # Its network is that of the machine: Podman's tests have no programs that would make another.
    result = await result_of("container_profile", tmp_path, frozenset({"container"}), image=IMAGE)

    assert result["profile"]["rows"] == 3
    assert result["is_whole"] is True
    assert engine.containers() == []


# Frameworks in an interpreter of their own.


async def test_orders_are_loaded_by_dlt_and_modelled_by_dbt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = frameworks_python()
    monkeypatch.setenv("NOETL_INTERPRETERS", f"dlt={python},dbt={python}")
    shutil.copytree(EXAMPLES / "dlt_and_dbt", tmp_path / "dlt_and_dbt")

    with DemoApi() as api:
        result = await result_of("dlt_and_dbt", tmp_path, api_url=api.url, project="dlt_and_dbt")

    # Read where both ran: this environment may have an older DuckDB.
    query = f"import duckdb; print(duckdb.connect({str(tmp_path / 'elt.duckdb')!r}).sql({READ!r}).fetchall())"
    read = await asyncio.to_thread(subprocess.run, [python, "-c", query], capture_output=True, text=True, check=True)
    assert result == {"loaded": 140, "models": ["shop_revenue"], "counts": {"success": 1, "pass": 2}}
    assert read.stdout.strip() == "[('lima', 40), ('oslo', 100)]"


async def test_a_forecast_runs_on_a_cluster_shop_by_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", f"dask={frameworks_python()}")
    await stored(tmp_path, "cluster", "dask", {"url": dask_cluster().auth})

    result = await result_of("cluster_forecast", tmp_path, draws=200)

    assert [one["shop"] for one in result["shops"]] == ["oslo", "lima", "kyoto"]
    assert all(one["low"] < 7 * mean < one["high"] for one, mean in zip(result["shops"], (120, 80, 200), strict=True))
    assert result["low"] == sum(one["low"] for one in result["shops"])
