"""Large values: stored by content, checked on every read (RES-01, RES-02)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.base.errors import ToolError
from noetl.store.contract import Results
from noetl.store.results.files import FileResults, MemoryResults


@pytest.fixture(params=["files", "memory"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> Results:
    return FileResults(tmp_path / "results") if request.param == "files" else MemoryResults()


@pytest.mark.req("RES-02")
def test_a_file_reference_has_its_five_keys_and_can_be_loaded(results: Results) -> None:
    value = {"rows": [1, "é", None] * 100}

    reference = results.put(value)

    assert reference.store
    assert reference.key
    assert len(reference.checksum) == 64
    assert reference.size > 100
    assert reference.schema_hint == "object"
    assert results.load(reference) == value


def test_an_equal_value_is_stored_in_one_file(results: Results) -> None:
    assert results.put([1, 2]) == results.put([1, 2])


@pytest.mark.req("RES-02")
def test_a_changed_byte_is_detected(tmp_path: Path) -> None:
    results = FileResults(tmp_path)
    reference = results.put("a" * 100)
    path = tmp_path / reference.key
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))

    with pytest.raises(ToolError) as caught:
        results.load(reference)

    assert caught.value.kind == "result.corrupt"


@pytest.mark.req("RES-06")
def test_a_missing_value_raises_its_own_error(tmp_path: Path) -> None:
    results = FileResults(tmp_path)
    reference = results.put([1])
    (tmp_path / reference.key).unlink()

    with pytest.raises(ToolError) as caught:
        results.load(reference)

    assert caught.value.kind == "result.missing"


def test_no_partially_written_file_remains(tmp_path: Path) -> None:
    reference = FileResults(tmp_path).put([1])

    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [Path(reference.key).name]


async def test_concurrent_writers_of_one_value_store_it_once(tmp_path: Path) -> None:
    results = FileResults(tmp_path)
    body = b'"' + b"x" * 500_000 + b'"'

    await asyncio.gather(*(results.send(body) for _ in range(20)))

    [kept] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept.read_bytes() == body


@pytest.mark.req("RES-02")
def test_a_truncated_file_is_written_again(tmp_path: Path) -> None:
    results = FileResults(tmp_path)
    path = tmp_path / results.put([1, 2, 3]).key
    path.write_bytes(path.read_bytes()[:-2])

    assert results.load(results.put([1, 2, 3])) == [1, 2, 3]
