"""Results in an object store, and the place of results by its name (RES-01, RES-02)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import obstore
import pytest
from obstore.store import S3Store

from noetl.base.errors import BackendError, ToolError
from noetl.store.open_store import open_results, open_store
from noetl.store.results.files import FileResults, key_of
from noetl.store.results.remote import ObjectResults


@pytest.fixture(params=["memory", "file"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectResults]:
    made = ObjectResults("memory:///" if request.param == "memory" else tmp_path.as_uri())
    yield made
    made.close()


@pytest.mark.req("RES-01", "RES-02")
@pytest.mark.parametrize("value", [{"é": [1, None]}, "text", [1.5], 7, "x" * 3_000_000])
def test_a_remote_value_is_read_back_unchanged(results: ObjectResults, value: object) -> None:
    reference = results.put(value)

    assert results.load(reference) == value
    assert reference.store == "objects"
    assert (reference.key, reference.size) == (key_of(reference.checksum), len(msgspec.json.encode(value)))


def test_equal_values_are_stored_once(results: ObjectResults) -> None:
    assert results.put({"a": 1}) == results.put({"a": 1})

    assert len(obstore.list(results._store).collect()) == 1


def test_an_existing_object_is_never_overwritten(results: ObjectResults) -> None:
    reference = results.put([1])
    before = obstore.head(results._store, reference.key)

    results.put([1])

    assert obstore.head(results._store, reference.key)["e_tag"] == before["e_tag"]


@pytest.mark.req("RES-02")
def test_changed_content_is_refused(results: ObjectResults) -> None:
    reference = results.put([1])
    obstore.put(results._store, reference.key, b"[2]")

    with pytest.raises(ToolError) as refused:
        results.load(reference)

    assert refused.value.kind == "result.corrupt"


@pytest.mark.req("RES-06")
def test_a_deleted_object_is_missing(results: ObjectResults) -> None:
    reference = results.put([1])
    obstore.delete(results._store, reference.key)

    with pytest.raises(ToolError) as refused:
        results.load(reference)

    assert refused.value.kind == "result.missing"


def test_an_unreachable_store_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ENDPOINT": "http://127.0.0.1:1", "ALLOW_HTTP": "1", "REGION": "x"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    results = ObjectResults("s3://bucket/below")
    results._store = S3Store.from_url(
        "s3://bucket/below", retry_config={"max_retries": 0}, client_options={"allow_http": True}
    )

    with pytest.raises(BackendError, match="the result store s3://bucket/below failed") as failed:
        results.put([1])
    results.close()

    assert "\n" not in str(failed.value)


@pytest.mark.parametrize("url", ["nonsense://a", "az://", "s3://"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(BackendError, match="results cannot be kept at"):
        ObjectResults(url)


def test_a_missing_driver_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(BackendError, match=r'pip install "noetl-engine\[storage\]"'):
        ObjectResults("memory:///")


@pytest.mark.parametrize(
    ("db", "chosen", "folder"),
    [
        ("store.db", None, "store.db.results"),
        ("store.db", "elsewhere", "elsewhere"),
        ("postgresql://h/d", None, "home/results"),
        ("postgresql://h/d", "elsewhere", "elsewhere"),
    ],
)
def test_results_are_next_to_the_store_file_in_the_data_folder_or_at_the_setting(
    db: str, chosen: str | None, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    if chosen is not None:
        monkeypatch.setenv("NOETL_RESULTS", chosen)

    results = open_results(db)

    assert isinstance(results, FileResults)
    assert (tmp_path / results._folder).resolve() == tmp_path / folder


def test_a_folder_can_be_given_as_a_url_and_is_still_synced(tmp_path: Path) -> None:
    results = open_results("store.db", (tmp_path / "a b").as_uri())

    assert isinstance(results, FileResults)
    assert results._folder == tmp_path / "a b"


async def test_an_object_store_is_chosen_by_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_RESULTS", "memory:///")
    store, results = await open_store(tmp_path / "store.db")
    await store.close()

    assert isinstance(results, ObjectResults)
