"""Lakes whose files are in object stores: S3 by moto, for some tests Azure by Azurite and Google by a stand-in."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import pytest_asyncio

from noetl.base.addresses.policy import CLOSED, OPEN, AddressGuard
from noetl.events.outcomes import Outcome
from noetl.testing.tool_conformance import listening
from noetl.tools.guarded_proxy import guarded_proxy
from noetl.tools.http.tool import HttpTool
from noetl.tools.lake import DeltaTool, DucklakeTool, IcebergTool
from noetl.tools.storage.file_service import FileService
from noetl.tools.storage.request import End, StorageRequest, location_of
from noetl.tools.storage.tool import StorageTool
from tests.process_liveness import is_alive
from tests.servers.http import HttpServer, Reply, Request, reply
from tests.servers.iceberg_rest import CLIENT_ID, CLIENT_SECRET, rest_auth, rest_catalogue
from tests.servers.lakes import bucket_tables, lake_interpreters
from tests.servers.object_stores import BUCKETS, s3_bucket
from tests.servers.postgres import pg_auth
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, outcome_of

__all__ = ["lake_interpreters", "pg_auth"]
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("lake_interpreters"),
    pytest.mark.asyncio(loop_scope="module"),  # one child process of each kind for all tests
]


class Lake:
    """The tools, and what a task says to read the two tables of the bucket."""

    def __init__(self) -> None:
        self.tools = {"iceberg": IcebergTool(), "delta": DeltaTool(), "ducklake": DucklakeTool()}
        self.bucket, self.folder = bucket_tables()
        self.inputs: dict[str, dict[str, Any]] = {
            "iceberg": {"table": "shop.orders", "catalog": "catalog.sqlite"},
            "delta": {"path": f"{self.bucket.url}/delta"},
        }

        self.open, self.closed = HttpTool(), HttpTool(CLOSED)

    def http(self, _: str) -> HttpTool:
        """The tool that other tools send requests by."""
        return self.open

    async def outcome(self, kind: str, /, spec: dict[str, Any] | None = None, **more: Any) -> Outcome:
        inputs = {"storage_auth": self.bucket.auth, **self.inputs.get(kind, {}), **more}
        inputs = {name: value for name, value in inputs.items() if value is not None}
        own = {name: inputs.pop(name) for name in ("addresses", "data_folders", "tool") if name in inputs}
        return await outcome_of(self.tools[kind], inputs, spec, **{"data_folders": (str(self.folder),), **own})

    async def rows(self, kind: str, /, **more: Any) -> Any:
        outcome = await self.outcome(kind, **more)
        assert outcome.error is None, outcome.error
        return outcome.result["data"]

    async def error(self, kind: str, /, **more: Any) -> Any:
        outcome = await self.outcome(kind, **more)
        assert outcome.error is not None, outcome.result
        return outcome.error


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lake(lake_interpreters: None) -> AsyncIterator[Lake]:
    made = Lake()
    yield made
    for tool in (*made.tools.values(), made.open, made.closed):
        await tool.close()


@pytest.fixture(params=["iceberg", "delta"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_table_in_a_bucket_is_read(lake: Lake, kind: str) -> None:
    found = await lake.rows(kind, query="SELECT id, name FROM source WHERE id > 2 ORDER BY id")
    counted = await lake.rows(
        kind, query="SELECT count(*) AS n, sum(total) AS total FROM source", columns=["id", "total"]
    )

    assert [row["id"] for row in found] == [3, 5, 6, 7, 8, 9]
    assert found[0] == {"id": 3, "name": "n3"}
    assert counted == [{"n": 12, "total": 22.0}]


async def test_a_table_in_a_bucket_is_read_at_an_earlier_version(lake: Lake) -> None:
    """The log has a checkpoint: without a version, only what comes after it is copied."""
    by_version = [len(await lake.rows("delta", version=version)) for version in (0, 1, 2)]
    early = await lake.error("delta", as_of="2001-01-01 00:00:00+00")
    now = await lake.rows("delta", as_of="2100-01-01 00:00:00+00", columns="id")

    assert by_version == [10, 13, 12]
    assert (early.kind, "no version" in early.message) == ("lake.input", True)
    assert len(now) == 12


@pytest.mark.deep
@pytest.mark.parametrize("provider", ["gs", "az"])
async def test_a_delta_table_is_read_in_every_store(lake: Lake, provider: str) -> None:
    bucket, storage = BUCKETS[provider](), StorageTool()
    listed = await outcome_of(storage, {"op": "list", "url": f"{lake.bucket.url}/delta", "auth": lake.bucket.auth})
    for one in listed.result["objects"]:
        target = {"url": f"{bucket.url}/{one['key']}", "auth": bucket.auth}
        copied = await outcome_of(
            storage, {"op": "copy", "url": one["url"], "target": target, "auth": lake.bucket.auth}
        )
        assert copied.error is None, copied.error
    await storage.close()

    now = await lake.rows("delta", path=f"{bucket.url}/delta", storage_auth=bucket.auth)
    first = await lake.rows("delta", path=f"{bucket.url}/delta", storage_auth=bucket.auth, version=0)

    assert (len(now), len(first)) == (12, 10)


async def test_an_address_without_a_table_is_reported(lake: Lake) -> None:
    nothing = await lake.error("delta", path=f"{lake.bucket.url}/nothing")
    no_file = await lake.error("iceberg", table=None, catalog=None, path=f"{lake.bucket.url}/nothing/x.metadata.json")
    no_bucket = await lake.error("delta", path="s3://a-bucket-of-nobody/t")
    nameless = await lake.error("delta", path="s3://")
    unreadable = await lake.error("delta", path="gs://b/t", storage_auth={"service_account_json": "nonsense-1"})

    assert (nameless.kind, '"path" names no bucket' in nameless.message) == ("storage.input", True)
    assert (unreadable.kind, unreadable.retryable) == ("storage.denied", False)
    assert "nonsense-1" not in str(unreadable)
    assert (nothing.kind, "no Delta table" in nothing.message) == ("storage.missing", True)
    assert no_file.kind in ("storage.missing", "duckdb.error")
    assert (no_bucket.kind, no_bucket.code) == ("storage.missing", "NoSuchBucket")


@pytest.mark.parametrize("provider", ["s3", *(pytest.param(one, marks=pytest.mark.deep) for one in ("gs", "az"))])
async def test_a_lake_stores_its_files_in_a_bucket(lake: Lake, provider: str, tmp_path: Path) -> None:
    bucket = BUCKETS[provider]()
    where = {"catalog": "shop.ducklake", "data_path": f"{bucket.url}/lake", "storage_auth": bucket.auth}
    own: dict[str, Any] = {"data_folders": (str(tmp_path),)}

    await lake.rows("ducklake", **where, **own, command="CREATE TABLE t AS SELECT range AS i FROM range(300000)")
    await lake.rows("ducklake", **where, **own, command="DELETE FROM t WHERE i % 2 = 0; INSERT INTO t VALUES (-1)")
    found = await lake.rows("ducklake", **where, **own, query="SELECT count(*) AS n, min(i) AS least FROM t")
    files = await lake.rows(
        "ducklake", **where, **own, query=f"SELECT count(*) AS n FROM glob('{bucket.url}/lake/**/*.parquet')"
    )

    forgotten = await lake.error("ducklake", catalog="shop.ducklake", **own, query="SELECT 1")

    assert found == [{"n": 150_001, "least": -1}]
    assert (forgotten.kind, 'write that as "data_path"' in forgotten.message) == ("sql.input", True)
    assert files[0]["n"] > 0
    assert [path.name for path in tmp_path.rglob("*.parquet")] == []


@pytest.mark.deep
async def test_a_lake_with_a_postgres_catalogue_stores_its_files_in_a_bucket(
    lake: Lake, pg_auth: dict[str, Any]
) -> None:
    """The process of DuckDB opens its connections to both before it is kept from making more."""
    bucket = s3_bucket()
    auth = {**pg_auth, "data_path": f"{bucket.url}/lake"}

    await lake.rows("ducklake", auth=auth, storage_auth=bucket.auth, command="CREATE TABLE t AS FROM range(50000)")
    found = await lake.rows("ducklake", auth=auth, storage_auth=bucket.auth, query="SELECT count(*) AS n FROM t")

    assert found == [{"n": 50_000}]


@pytest.mark.parametrize("provider", ["gs", "s3"])
async def test_a_failed_write_leaves_the_lake_unchanged(lake: Lake, provider: str, tmp_path: Path) -> None:
    """Google's stand-in refuses the token; the line to S3 breaks when the first bytes have passed."""
    bucket = BUCKETS[provider]()
    where: dict[str, Any] = {"catalog": "shop.ducklake", "data_path": f"{bucket.url}/lake"}
    own: dict[str, Any] = {"data_folders": (str(tmp_path),)}
    await lake.rows("ducklake", **where, **own, storage_auth=bucket.auth, command="CREATE TABLE t (i BIGINT)")

    with Proxy("127.0.0.1", bucket.port) as line:
        line.rate = 20_000
        line_auth = {**bucket.auth, "endpoint": f"http://127.0.0.1:{line.port}"}
        auth = {"gs": {**bucket.auth, "bearer_token": "wrong"}, "s3": line_auth}[provider]
        insert = "INSERT INTO t SELECT hash(range) // 2 FROM range(300000)"
        writing = asyncio.ensure_future(lake.outcome("ducklake", **where, **own, storage_auth=auth, command=insert))
        while provider == "s3" and line.carried < 5_000:
            await asyncio.sleep(0.01)
        with line.down():
            error = (await writing).error
    query = f"SELECT (SELECT count(*) FROM t) AS n, (SELECT count(*) FROM glob('{bucket.url}/lake/**')) AS files"
    left = await lake.rows("ducklake", **where, **own, storage_auth=bucket.auth, query=query)

    assert error is not None
    assert (error.kind, error.retryable) == {"gs": ("storage.denied", False), "s3": ("storage.error", True)}[provider]
    assert left == [{"n": 0, "files": 0}]


async def test_a_rejected_credential_is_reported_with_the_code_of_the_service(lake: Lake, kind: str) -> None:
    bucket = BUCKETS["gs"]()
    wrong = {**bucket.auth, "bearer_token": "wrong-token-1"}
    place = {"iceberg": "m.metadata.json", "delta": "t"}[kind]

    error = await lake.error(kind, path=f"{bucket.url}/{place}", table=None, catalog=None, storage_auth=wrong)

    # The answer to a HEAD has no body, and so no code of the service.
    assert (error.kind, error.code) == ("storage.denied", {"iceberg": "401", "delta": "InvalidAuthentication"}[kind])
    assert "wrong-token-1" not in str(error)


async def test_a_connection_lost_in_the_middle_is_retryable(lake: Lake, kind: str) -> None:
    with Proxy("127.0.0.1", lake.bucket.port) as line:
        auth = {**lake.bucket.auth, "endpoint": f"http://127.0.0.1:{line.port}"}
        line.rate = 20_000
        reading = asyncio.ensure_future(lake.outcome(kind, storage_auth=auth))
        while line.carried < 2_000:
            await asyncio.sleep(0.01)
        with line.down():
            outcome = await reading
        line.rate = None
        again = await lake.rows(kind, storage_auth=auth)

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("storage.error", True)
    assert len(again) == 12


async def test_a_read_that_times_out_ends_with_its_processes(lake: Lake, kind: str) -> None:
    with Proxy("127.0.0.1", lake.bucket.port) as line, line.silent("back"):
        auth = {**lake.bucket.auth, "endpoint": f"http://127.0.0.1:{line.port}"}
        reading = asyncio.ensure_future(lake.outcome(kind, storage_auth=auth))
        while not line.carried:
            await asyncio.sleep(0.01)
        pids = services()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    assert pids
    assert not any(is_alive(pid) for pid in pids)


def services() -> list[int]:
    """The processes of ours that serve a bucket."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line, parent = (
                (folder / "cmdline").read_bytes(),
                (folder / "stat").read_text().rpartition(")")[2].split()[1],
            )
        except OSError:
            continue
        if b"storage.file_service" in line and int(parent) == os.getpid():
            found.append(int(folder.name))
    return found


async def test_files_that_a_table_references_elsewhere_are_not_opened(lake: Lake) -> None:
    """The metadata is somebody else's: another bucket of the same credential, files of this machine, other servers."""
    bucket, other = s3_bucket(), s3_bucket()
    storage = StorageTool()
    errors = []
    for number, place in enumerate(
        (f"{other.url}/m.avro", "file:///etc/passwd", "http://127.0.0.1:1/x", "gs://b/m.avro")
    ):
        snapshot: dict[str, Any] = {
            "snapshot-id": 1,
            "timestamp-ms": 1,
            "manifest-list": place,
            "schema-id": 0,
            "sequence-number": 1,
        }
        snapshot["summary"] = {"operation": "append"}
        fields = [{"id": 1, "name": "id", "type": "long", "required": False}]
        metadata = {
            "format-version": 2,
            "table-uuid": str(uuid4()),
            "location": bucket.url,
            "last-updated-ms": 1,
            "last-column-id": 1,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "current-snapshot-id": 1,
            "snapshots": [snapshot],
            "last-sequence-number": 1,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
        }
        url = f"{bucket.url}/{number}.metadata.json"
        put = {"op": "put", "url": url, "data": metadata, "auth": bucket.auth}
        assert (await outcome_of(storage, put)).error is None
        errors.append(await lake.error("iceberg", table=None, catalog=None, path=url, storage_auth=bucket.auth))
    await storage.close()

    assert {error.code for error in errors} == {"PermissionException"}
    assert "root:" not in str(errors)


@pytest.mark.deep
async def test_a_query_reaches_only_the_bucket_and_the_data_folders(lake: Lake, kind: str) -> None:
    other = s3_bucket()
    told = [
        await lake.error(kind, query=f"SELECT * FROM source, read_text('{place}')")
        for place in (f"{other.url}/x", "/etc/passwd", "http://127.0.0.1:1/x")
    ]
    settings = await lake.rows(kind, query="SELECT name, value FROM duckdb_settings() WHERE value IS NOT NULL")

    assert {error.code for error in told} == {"PermissionException"}
    assert lake.bucket.auth["secret_access_key"] not in str(settings)


async def test_a_nonsensical_response_is_an_error(lake: Lake, kind: str) -> None:
    nonsense = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n\x00\x1b[31mjunk",
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/99\r\nContent-Length: 2\r\n\r\n{}",
        secrets.token_bytes(2_000),
    )
    errors = []
    for answer in nonsense:
        async with listening(answer) as listener:
            auth = {**lake.bucket.auth, "endpoint": f"http://127.0.0.1:{listener.port}"}
            errors.append(await lake.error(kind, storage_auth=auth))

    assert {error.kind for error in errors} <= {"storage.error", "storage.missing", "duckdb.error"}
    assert all(sign.isprintable() for error in errors for sign in error.message)


@pytest.mark.parametrize(
    "name", ["delta", *(pytest.param(one, marks=pytest.mark.deep) for one in ("iceberg", "ducklake"))]
)
async def test_the_address_policy_applies_to_the_object_store(lake: Lake, name: str) -> None:
    where = {
        "catalog": "x.ducklake",
        "data_path": f"{lake.bucket.url}/x",
        "command": "CREATE TABLE t AS FROM range(9999)",
    }
    inputs = {**where, "read_only": False} if name == "ducklake" else {}
    with Proxy("127.0.0.1", lake.bucket.port) as line:
        auth = {**lake.bucket.auth, "endpoint": f"http://localhost:{line.port}"}
        closed = await lake.error(name, **inputs, storage_auth=auth, addresses=AddressGuard(CLOSED))
        metadata = await lake.error(name, **inputs, storage_auth={**auth, "endpoint": "http://169.254.169.254"})

        assert line.connections == 0
    assert "blocked" in closed.message
    assert "blocked" in metadata.message


async def test_no_secret_is_revealed(lake: Lake) -> None:
    """What the process with the credential answers is what the other processes are told."""
    told, asked = b"", []
    refused = b"HTTP/1.1 403 no\r\nContent-Length: 4\r\n\r\nfour"
    async with listening(refused) as listener, guarded_proxy(AddressGuard(OPEN)) as proxy:
        for _ in range(25):
            keys = {"access_key_id": secrets.token_urlsafe(12), "secret_access_key": secrets.token_urlsafe(24)}
            asked += list(keys.values())
            fields = {**keys, "endpoint": f"http://127.0.0.1:{listener.port}"}
            request = StorageRequest(op="get", source=End(location_of("s3://bucket/t"), fields), policy=OPEN)
            service = FileService(request, proxy)
            for op in ("stat", "read", "list"):
                head, _ = await service._answer({"op": op, "path": "s3://bucket/t/x", "first": 0, "end": 9}, b"")
                assert head["error"]["kind"] == "storage.denied"
                told += msgspec.json.encode(head)

    assert len(asked) == 50
    assert [secret for secret in asked if secret.encode() in told] == []


# A catalogue over HTTP.


async def test_a_rest_catalogue_returns_the_table_location_and_a_credential(lake: Lake) -> None:
    at_rest = {"table": "shop.orders", "catalog": None, "storage_auth": None}
    vended = await lake.rows("iceberg", **at_rest, auth=rest_auth(), tool=lake.http)
    by_client = await lake.rows(
        "iceberg", **at_rest, auth=rest_auth(client_id=CLIENT_ID, client_secret=CLIENT_SECRET), tool=lake.http
    )
    missing = await lake.error("iceberg", **{**at_rest, "table": "shop.none"}, auth=rest_auth(), tool=lake.http)
    tool = lake.tools["iceberg"]
    assert isinstance(tool, IcebergTool)

    assert [len(rows) for rows in (vended, by_client)] == [12, 12]
    assert (missing.kind, 'no table "shop.none"' in missing.message) == ("lake.input", True)
    assert await tool.check({"auth": rest_auth()}, context(tool=lake.http)) == "opened the catalogue: 1 namespaces"


async def test_a_failing_rest_catalogue_is_reported_without_secrets(lake: Lake) -> None:
    at_rest = {"table": "shop.orders", "catalog": None, "tool": lake.http}
    tried, told = [], []
    for _ in range(25):
        token, secret = secrets.token_urlsafe(12), secrets.token_urlsafe(12)
        for auth in (rest_auth(token=token), rest_auth(client_id="a", client_secret=secret)):
            tried.append(token if "token" in auth else secret)
            told.append(await lake.error("iceberg", **at_rest, auth=auth))
    with Proxy("127.0.0.1", rest_catalogue().port) as line, line.down():
        lost = await lake.error("iceberg", **at_rest, auth={"url": f"http://127.0.0.1:{line.port}", "token": "t"})
    blocked = await lake.error("iceberg", **{**at_rest, "tool": lambda _: lake.closed}, auth=rest_auth())

    assert {(error.kind, error.status) for error in told} == {("lake.denied", 401)}
    assert "the token is not valid" in told[0].message
    assert [
        secret for secret, error in zip(tried, told, strict=True) if secret.encode() in msgspec.json.encode(error)
    ] == []
    assert (lost.kind, lost.retryable) == ("lake.error", True)
    assert "blocked" in blocked.message


async def test_a_vended_credential_is_not_shown(lake: Lake) -> None:
    """The store repeats the key that it does not know, and no credential of the task has it."""
    key = f"VENDED{secrets.token_hex(8)}"
    refusal = f"<Error><Code>InvalidAccessKeyId</Code><Message>there is no key {key}</Message></Error>"
    found = (
        b'HTTP/1.1 200 OK\r\nLast-Modified: Wed, 18 Nov 2026 20:00:00 GMT\r\nETag: "1"\r\nContent-Length: 99\r\n\r\n'
    )

    def answer(request: Request) -> Reply:
        return Reply(raw=found) if request.method == "HEAD" else reply(403, text=refusal)

    async with HttpServer({"*": answer}) as store:
        vended = {"s3.endpoint": store.url, "s3.access-key-id": key, "s3.secret-access-key": "s"}
        table = {"metadata-location": "s3://bucket/t/m.metadata.json", "config": vended}
        async with HttpServer({"*": reply(json=table)}) as catalogue:
            auth = {"url": catalogue.url, "token": "t"}
            error = await lake.error("iceberg", table="a.b", catalog=None, storage_auth=None, auth=auth, tool=lake.http)

    assert (error.kind, error.code) == ("storage.denied", "InvalidAccessKeyId")
    assert "there is no key ***" in error.message


async def test_a_nonsensical_rest_catalogue_response_is_an_error(lake: Lake) -> None:
    def body(text: str) -> bytes:
        return (
            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
        )

    errors = []
    for answer in (body("[1]"), body("{}"), body('{"defaults": 3, "metadata-location": 7}'), b"\x00\x1b[31mjunk"):
        async with listening(answer) as listener:
            auth = {"url": f"http://127.0.0.1:{listener.port}", "token": "t"}
            errors.append(await lake.error("iceberg", table="a.b", catalog=None, auth=auth, tool=lake.http))
    elsewhere = body('{"metadata-location": "file:///etc/passwd"}')
    async with listening(elsewhere) as listener:
        auth = {"url": f"http://127.0.0.1:{listener.port}", "token": "t"}
        errors.append(await lake.error("iceberg", table="a.b", catalog=None, auth=auth, tool=lake.http))

    assert {error.kind for error in errors} == {"lake.error", "lake.input"}
    assert "outside the folders" in errors[-1].message
