"""`storage` against moto (S3), Azurite and a stand-in for Google's XML API, and on local folders."""

from __future__ import annotations

import asyncio
import hashlib
import os
import urllib.request
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.base.errors import ToolError
from noetl.events.outcomes import Outcome
from noetl.tools.kinds.storage import STORAGE
from noetl.tools.storage.listing import _PAGE, list_objects, watch
from noetl.tools.storage.operations import _OPERATIONS, CHUNK_BYTES
from noetl.tools.storage.request import End, ListingOptions, StorageRequest, location_of, part_of
from noetl.tools.storage.tool import StorageTool
from tests.servers.object_stores import BUCKETS, Bucket, s3_bucket
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, outcome_of

pytestmark = [
    pytest.mark.timeout(600),  # the first run installs the counterparts
    pytest.mark.asyncio(loop_scope="module"),  # one child process for all tests
]
PROVIDERS = ("s3", "gs", "az", "file")
FILES = Bucket("file:", {}, 0)  # relative to the first data folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool() -> AsyncIterator[StorageTool]:
    tool = StorageTool()
    yield tool
    await tool.close()


@pytest.fixture(params=PROVIDERS)
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    if request.param == "file":
        return Bucket(f"file://{tmp_path}", {}, 0)
    return BUCKETS[request.param]()


@pytest.fixture
def s3() -> Bucket:
    return s3_bucket()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


async def ran(tool: StorageTool, bucket: Bucket, op: str, key: str = "", /, **inputs: Any) -> Outcome:
    spec, more = inputs.pop("spec", None), inputs.pop("more", {})
    folders = (bucket.url.removeprefix("file://"),) if bucket.url.startswith("file:/") else ()
    more = {"data_folders": folders, **more}
    url = f"file:{key}" if bucket is FILES else f"{bucket.url}/{key}"
    return await outcome_of(tool, {"op": op, "url": url, "auth": bucket.auth, **inputs}, spec, **more)


async def result_of(tool: StorageTool, bucket: Bucket, op: str, key: str = "", /, **inputs: Any) -> Any:
    outcome = await ran(tool, bucket, op, key, **inputs)
    assert outcome.error is None, outcome.error
    return outcome.result


async def error_of(tool: StorageTool, bucket: Bucket, op: str, key: str = "", /, **inputs: Any) -> Any:
    outcome = await ran(tool, bucket, op, key, **inputs)
    assert outcome.error is not None, outcome.result
    return outcome.error


async def test_every_operation_is_declared() -> None:
    declared = STORAGE.input("op")

    assert declared is not None
    assert declared.schema["enum"] == list(_OPERATIONS)


@pytest.mark.parametrize(
    ("value", "form", "read"),
    [
        ({"a": [1, None]}, "auto", {"a": [1, None]}),
        ("plain text", "auto", "plain text"),
        ("42", "auto", "42"),
        ("", "auto", ""),
        (7, "json", 7),
    ],
)
async def test_an_object_keeps_its_value(tool: StorageTool, bucket: Bucket, value: Any, form: str, read: Any) -> None:
    put = await result_of(tool, bucket, "put", "orders/7 ä+%.json", data=value)
    got = await result_of(tool, bucket, "get", "orders/7 ä+%.json", format=form)

    assert got["value"] == read
    assert got["size"] == put["size"]
    assert got["etag"] == put["etag"]


async def test_binary_values_are_passed_as_base64(tool: StorageTool, bucket: Bucket) -> None:
    put = await result_of(tool, bucket, "put", "image.bin", data="AP//AAE=", format="base64")
    got = await result_of(tool, bucket, "get", "image.bin", format="base64")

    assert got["value"] == "AP//AAE="
    assert put["size"] == 5
    assert put["checksum"] == f"sha256:{hashlib.sha256(bytes([0, 255, 255, 0, 1])).hexdigest()}"


@pytest.mark.parametrize(
    ("written", "read"), [("2-4", "234"), ({"offset": 7}, "789"), ({"offset": 1, "limit": 2}, "12")]
)
async def test_a_range_of_an_object_is_read(tool: StorageTool, bucket: Bucket, written: Any, read: str) -> None:
    await result_of(tool, bucket, "put", "digits", data="0123456789")

    assert (await result_of(tool, bucket, "get", "digits", range=written))["value"] == read


async def test_a_missing_object_is_an_error_with_the_code_of_the_service(tool: StorageTool, bucket: Bucket) -> None:
    error = await error_of(tool, bucket, "get", "nowhere")

    assert error.kind == "storage.missing"
    assert not error.retryable
    if bucket.url.startswith(("s3", "gs")):
        assert error.code == "NoSuchKey"
    if bucket.url.startswith("az"):
        assert error.code == "BlobNotFound"


async def test_objects_are_listed_in_pages_by_folder_and_by_pattern(tool: StorageTool, bucket: Bucket) -> None:
    for name in ("in/a.csv", "in/b.txt", "in/deep/c.csv", "out/d.csv"):
        await result_of(tool, bucket, "put", name, data=name)

    first = await result_of(tool, bucket, "list", "in", limit=2)
    second = await result_of(tool, bucket, "list", "in", limit=2, cursor=first["cursor"])
    matching = await result_of(tool, bucket, "list", "", pattern="*.csv")
    level = await result_of(tool, bucket, "list", "in", recursive=False)

    assert [one["key"] for one in first["objects"] + second["objects"]] == ["in/a.csv", "in/b.txt", "in/deep/c.csv"]
    assert second["cursor"] is None
    assert [one["key"] for one in matching["objects"]] == ["in/a.csv", "in/deep/c.csv", "out/d.csv"]
    assert [one["key"] for one in level["objects"]] == ["in/a.csv", "in/b.txt"]
    assert [folder.rstrip("/") for folder in level["folders"]] == ["in/deep"]


async def test_deleting_twice_is_no_error_and_a_folder_is_deleted_on_request(tool: StorageTool, bucket: Bucket) -> None:
    for name in ("x/1", "x/2", "y"):
        await result_of(tool, bucket, "put", name, data=name)

    await result_of(tool, bucket, "delete", "y")
    await result_of(tool, bucket, "delete", "y")
    deleted = await result_of(tool, bucket, "delete", "x", recursive=True)

    assert deleted["deleted"] == 2
    assert (await result_of(tool, bucket, "list"))["objects"] == []


async def test_a_conditional_write_detects_another_writer(tool: StorageTool, bucket: Bucket) -> None:
    first = await result_of(tool, bucket, "put", "lock", data="one", if_absent=True, more={"key": "execution 1"})
    second = await error_of(tool, bucket, "put", "lock", data="two", if_absent=True, more={"key": "execution 2"})

    assert second.kind == "storage.conflict"
    if not bucket.url.startswith("file"):
        changed = await result_of(tool, bucket, "put", "lock", data="three", if_match=first["etag"])
        late = await error_of(tool, bucket, "put", "lock", data="four", if_match=first["etag"])
        assert changed["etag"] != first["etag"]
        assert late.kind == "storage.conflict"


@pytest.mark.parametrize("provider", ["s3", "gs", "az"])
async def test_a_repeated_attempt_recognises_its_own_write(tool: StorageTool, provider: str) -> None:
    bucket = BUCKETS[provider]()

    first = await result_of(tool, bucket, "put", "lock", data="mine", if_absent=True)
    again = await result_of(tool, bucket, "put", "lock", data="mine", if_absent=True)

    assert again["etag"] == first["etag"]


async def test_a_copy_streams_between_stores_and_preserves_every_byte(
    tool: StorageTool, bucket: Bucket, tmp_path: Path
) -> None:
    content = hashlib.shake_256(b"a file").digest(CHUNK_BYTES + 1)  # in two parts, and no more: emulators are slow
    (tmp_path / "big.bin").write_bytes(content)
    folders = {"more": {"data_folders": (str(tmp_path),)}}
    target = {"url": f"{bucket.url}/kept/big.bin", "auth": bucket.auth}

    up = await result_of(tool, FILES, "copy", "big.bin", target=target, **folders)
    inside = await result_of(tool, bucket, "copy", "kept/big.bin", target=f"{bucket.url}/kept/twin.bin", **folders)
    down = await result_of(tool, bucket, "copy", "kept/twin.bin", target="file:back.bin", **folders)

    assert up["size"] == inside["size"] == down["size"] == len(content)
    if not bucket.url.startswith("file"):
        assert up["checksum"] == down["checksum"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert (tmp_path / "back.bin").read_bytes() == content


async def test_a_copy_to_a_file_over_the_limit_leaves_the_old_file_and_no_part(
    tool: StorageTool, bucket: Bucket, tmp_path: Path
) -> None:
    content = b"n" * ((1 << 20) + 1)
    (tmp_path / "big.bin").write_bytes(content)
    (tmp_path / "near").mkdir()
    (tmp_path / "near/back.bin").write_text("old")
    more = {"data_folders": (str(tmp_path / "near"), str(tmp_path))}
    up = {"url": f"{bucket.url}/kept/big.bin", "auth": bucket.auth}
    await result_of(tool, FILES, "copy", str(tmp_path / "big.bin"), target=up, more=more)
    down = {"target": "file:back.bin", "more": more}

    error = await error_of(tool, bucket, "copy", "kept/big.bin", spec={"max_bytes": 1 << 20}, **down)
    old, names = (tmp_path / "near/back.bin").read_text(), [one.name for one in (tmp_path / "near").iterdir()]
    await result_of(tool, bucket, "copy", "kept/big.bin", spec={"max_bytes": 2 << 20}, **down)
    taken = await error_of(tool, bucket, "copy", "kept/big.bin", if_absent=True, **down)

    assert error.kind == "result.too_large"
    assert error.message.endswith("big.bin has more than 1048576 bytes: raise spec.max_bytes if it may")
    assert (old, names) == ("old", ["back.bin"])
    assert (tmp_path / "near/back.bin").read_bytes() == content
    assert taken.kind == "storage.conflict"
    assert [one.name for one in (tmp_path / "near").iterdir()] == ["back.bin"]


async def test_a_cancelled_copy_to_a_file_leaves_the_old_file_and_no_part(
    tool: StorageTool, s3: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "big.bin").write_bytes(b"z" * (24 << 20))
    (tmp_path / "near").mkdir()
    (tmp_path / "near/back.bin").write_text("old")
    more = {"data_folders": (str(tmp_path / "near"), str(tmp_path))}
    target = {"url": f"{s3.url}/big.bin", "auth": s3.auth}
    await result_of(tool, FILES, "copy", str(tmp_path / "big.bin"), target=target, more=more)
    with Proxy("127.0.0.1", s3.port) as line:
        line.rate = 8 << 20  # slow enough that it is under way when it is cancelled
        auth = {**s3.auth, "endpoint": f"http://127.0.0.1:{line.port}"}
        copying = asyncio.create_task(ran(tool, s3, "copy", "big.bin", target="file:back.bin", auth=auth, more=more))
        while not list((tmp_path / "near").glob(".*")):
            assert not copying.done(), copying.result()
            await asyncio.sleep(0.001)
        copying.cancel()
        await asyncio.gather(copying, return_exceptions=True)

    assert [one.name for one in (tmp_path / "near").iterdir()] == ["back.bin"]
    assert (tmp_path / "near/back.bin").read_text() == "old"


async def test_a_file_that_is_being_copied_is_no_object_yet(tool: StorageTool, tmp_path: Path) -> None:
    (tmp_path / os.path.basename(part_of(str(tmp_path / "a"), "key"))).write_text("half")

    listed = await result_of(tool, FILES, "list", "", more={"data_folders": (str(tmp_path),)})

    assert listed["objects"] == []


async def test_watch_returns_the_oldest_of_very_many_objects(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many are held as one call returns, and those between two looks at them."""
    count = 2 * _PAGE + 10
    begun = datetime(2024, 1, 1, tzinfo=UTC)
    metas = [
        {"path": f"{n:06}", "size": 1, "e_tag": "e", "last_modified": begun + timedelta(seconds=count - n)}
        for n in range(count)
    ]

    async def pages(*_: Any, **__: Any) -> AsyncIterator[Any]:
        for meta in metas:
            yield meta

    sizes: list[int] = []

    def counted(found: list[Any], **more: Any) -> list[Any]:
        sizes.append(len(found))
        return sorted(found, **more)

    monkeypatch.setattr("noetl.tools.storage.listing.matching", pages)
    monkeypatch.setattr("noetl.tools.storage.listing.sorted", counted, raising=False)
    request = StorageRequest(op="watch", source=End(location_of(s3.url)), listing=ListingOptions(limit=3))
    found = await watch(None, "", request)  # type: ignore[arg-type]

    assert [one["key"] for one in found["objects"]] == [f"{n:06}" for n in range(count - 1, count - 4, -1)]
    assert found["more"] is True
    assert max(sizes) == _PAGE + 4


@pytest.mark.parametrize("op", ["list", "watch"])
async def test_names_without_end_are_not_held(op: str, s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = [0]

    async def pages(*_: Any, **__: Any) -> AsyncIterator[Any]:
        for number in range(200):
            looked[0] += 1
            name = f"{number}-".ljust(1 << 20, "n")
            yield {"path": name, "e_tag": "e", "size": 1, "last_modified": datetime(2024, 1, 1, tzinfo=UTC)}

    monkeypatch.setattr("noetl.tools.storage.listing.matching", pages)
    request = StorageRequest(op=op, source=End(location_of(s3.url)), listing=ListingOptions(limit=1_000))

    with pytest.raises(ToolError, match="have more than 64 MiB: write a lower limit") as refused:
        await {"list": list_objects, "watch": watch}[op](None, "", request)  # type: ignore[arg-type]

    assert refused.value.kind == "result.too_large"
    assert looked[0] == 64


async def test_a_copy_onto_an_existing_object_is_a_conflict_if_it_must_be_new(tool: StorageTool, s3: Bucket) -> None:
    for name in ("a", "b"):
        await result_of(tool, s3, "put", name, data=name)

    error = await error_of(tool, s3, "copy", "a", target=f"{s3.url}/b", if_absent=True)

    assert error.kind == "storage.conflict"
    assert (await result_of(tool, s3, "get", "b"))["value"] == "b"


@pytest.mark.parametrize("provider", ["s3", "az"])
async def test_a_signed_url_gives_public_access_to_the_object(tool: StorageTool, provider: str) -> None:
    bucket = BUCKETS[provider]()
    await result_of(tool, bucket, "put", "report.txt", data="for you")

    signed = await result_of(tool, bucket, "presign", "report.txt", expires="10m")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    body = await asyncio.to_thread(lambda: opener.open(signed["url"], timeout=60).read())

    assert body == b"for you"
    assert signed["expires_s"] == 600


@pytest.mark.parametrize("auth", [None, {"bearer_token": "a token"}])
async def test_a_store_that_cannot_sign_reports_it_without_a_request(tool: StorageTool, auth: Any) -> None:
    error = await error_of(tool, Bucket("gs://bucket", auth, 0), "presign", "report.txt")

    assert error.kind == "storage.input"
    assert "can sign" in error.message


async def test_new_objects_are_returned_once_even_within_one_second(tool: StorageTool, bucket: Bucket) -> None:
    await result_of(tool, bucket, "put", "in/b", data="1")
    first = await result_of(tool, bucket, "watch", "in")
    await result_of(tool, bucket, "put", "in/a", data="2")  # an earlier key, in the same second

    second = await result_of(tool, bucket, "watch", "in", cursor=first["cursor"])
    third = await result_of(tool, bucket, "watch", "in", cursor=second["cursor"])

    assert [one["key"] for one in first["objects"]] == ["in/b"]
    assert [one["key"] for one in second["objects"]] == ["in/a"]
    assert third["objects"] == []


async def test_new_objects_over_the_limit_are_returned_by_the_next_calls(tool: StorageTool, s3: Bucket) -> None:
    for number in range(5):
        await result_of(tool, s3, "put", f"in/{number}", data="x")

    told, cursor = [], None
    for _ in range(3):
        found = await result_of(tool, s3, "watch", "in", limit=2, cursor=cursor)
        told += [one["key"] for one in found["objects"]]
        cursor = found["cursor"]

    assert sorted(told) == [f"in/{number}" for number in range(5)]
    assert found["more"] is False


async def test_watch_waits_for_the_first_new_object(tool: StorageTool, s3: Bucket) -> None:
    waiting = asyncio.create_task(result_of(tool, s3, "watch", "in", wait="60s", interval=0.1))
    other = StorageTool()
    await result_of(other, s3, "put", "in/late", data="x")

    found = await waiting
    await other.close()

    assert [one["key"] for one in found["objects"]] == ["in/late"]


async def test_an_oversized_object_is_not_returned(tool: StorageTool, bucket: Bucket) -> None:
    await result_of(tool, bucket, "put", "big", data="x" * 1001)

    error = await error_of(tool, bucket, "get", "big", spec={"max_bytes": 1000})

    assert error.kind == "result.too_large"
    assert "copy it to a file" in error.message


@pytest.mark.parametrize("provider", ["gs", "az"])
async def test_a_rejected_credential_is_reported_with_the_code_of_the_service(tool: StorageTool, provider: str) -> None:
    bucket = BUCKETS[provider]()
    wrong = {"bearer_token": "wrong"} if provider == "gs" else {"account_key": "d3Jvbmc="}

    error = await error_of(tool, bucket, "list", auth={**bucket.auth, **wrong})

    assert error.kind == "storage.denied"
    assert error.code == {"gs": "InvalidAuthentication", "az": "AuthorizationFailure"}[provider]
    assert "wrong" not in error.message


async def test_an_incomplete_credential_is_refused_before_anything_is_sent(tool: StorageTool, s3: Bucket) -> None:
    error = await error_of(tool, s3, "list", auth={"endpoint": s3.auth["endpoint"], "access_key_id": "only this"})

    assert error.kind == "keychain.unresolved"
    assert "secret_access_key" in error.message


async def test_the_environment_of_the_worker_never_authenticates_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in knows one token; a request without `auth` must not find a key of the operator."""
    tool = StorageTool()  # whose child begins with this environment
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GOOGLE_BEARER_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.setenv(name, "of the operator")
    bucket = BUCKETS["gs"]()

    error = await error_of(tool, bucket, "list", auth={"endpoint": bucket.auth["endpoint"]})
    await tool.close()

    assert error.kind == "storage.denied"


async def test_a_private_address_is_reached_only_if_the_policy_allows(tool: StorageTool, s3: Bucket) -> None:
    """The guard is asked by the connection itself: neither a name nor a redirect leads around it."""
    error = await error_of(tool, s3, "list", more={"addresses": AddressGuard(CLOSED)})

    assert error.kind == "tool.not_allowed"
    assert "private address" in error.message


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "link/passwd", "in/../../outside"])
async def test_files_outside_the_data_folders_are_unreachable(tool: StorageTool, folder: Path, path: str) -> None:
    (folder / "data").mkdir()
    (folder / "data/link").symlink_to("/etc")
    local = FILES

    for op, more in (("get", {}), ("put", {"data": "x"}), ("list", {}), ("delete", {"recursive": True})):
        inputs = {"url": f"file:{path}", "more": {"data_folders": (str(folder / "data"),)}, **more}
        error = await error_of(tool, local, op, **inputs)
        assert error.kind == "storage.input"
        assert "outside the folders" in error.message


async def test_without_a_data_folder_no_object_file_is_opened(tool: StorageTool) -> None:
    error = await error_of(tool, FILES, "get", "x")

    assert "no data folder is open" in error.message


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/x", "is not a URL of an object"),
        ("bucket/key", "is not a URL of an object"),
        ("s3:///key", "names no bucket"),
        ("s3://user:secret@bucket/key", "holds a login"),
        ("", "is missing"),
        (None, "is missing"),
    ],
)
async def test_an_invalid_url_is_reported_with_an_example(tool: StorageTool, url: Any, said: str) -> None:
    error = await error_of(tool, Bucket("", {}, 0), "get", url=url)

    assert error.kind == "storage.input"
    assert said in error.message
    assert "secret" not in error.message


async def test_a_connection_lost_during_a_copy_leaves_no_object_and_is_retryable(
    tool: StorageTool, s3: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "big.bin").write_bytes(b"z" * (40 << 20))
    with Proxy("127.0.0.1", s3.port) as line:
        auth = {**s3.auth, "endpoint": f"http://127.0.0.1:{line.port}"}
        target = {"url": f"{s3.url}/big.bin", "auth": auth}
        inputs = {"target": target, "more": {"data_folders": (str(tmp_path),)}}
        copying = asyncio.create_task(ran(tool, FILES, "copy", "big.bin", **inputs))
        while line.carried < 5 << 20 and not copying.done():
            await asyncio.sleep(0.01)
        line.is_down = True
        line.cut()
        outcome = await copying

    assert outcome.error is not None
    assert outcome.error.kind == "storage.error"
    assert outcome.error.retryable
    assert (await result_of(tool, s3, "list"))["objects"] == []


async def test_a_cancelled_task_ends_its_process(tool: StorageTool, s3: Bucket) -> None:
    waiting = asyncio.create_task(result_of(tool, s3, "watch", "in", wait="1h", interval=0.2))
    while not tool._children._busy:
        await asyncio.sleep(0.01)
    (child,) = tool._children._busy

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert not child.usable
    assert not Path(f"/proc/{child.pid}").exists()


async def test_a_credential_check_names_what_it_reached(tool: StorageTool, s3: Bucket) -> None:
    said = await tool.check({"url": s3.url, "auth": s3.auth}, context())

    assert said == f"listed {s3.url}"


@pytest.fixture
def hostile() -> Iterator[int]:
    """A server that answers every request with garbage that looks like an error of S3."""
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Hostile(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (
                b"<Error><Code>Evil</Code><Message>\x1b[31mred\r\nline https://x.y/?sig=abc</Message></Error>"
                + b"<" * 99_999
            )
            self.send_response(400)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


async def test_a_hostile_response_is_short_and_plain_in_the_error(tool: StorageTool, hostile: int) -> None:
    bucket = Bucket("s3://bucket", {"endpoint": f"http://127.0.0.1:{hostile}"}, hostile)

    error = await error_of(tool, bucket, "list")

    assert error.code == "Evil"
    assert len(msgspec.json.encode(error)) < 600
    assert "\x1b" not in error.message
    assert "sig=" not in error.message
