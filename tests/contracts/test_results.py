"""The contract of result stores: by content, durable, verified, collected when nobody names them (RES-01, RES-02)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from noetl.base.clock import SystemClock
from noetl.base.errors import BackendError, ToolError
from noetl.control.background.retention import Retention
from noetl.store.contract import ResultStore
from noetl.store.memory import MemoryStore
from noetl.store.results import nats_objects
from noetl.store.results.files import MemoryResults
from tests.control.background.ended_executions import ended
from tests.results.places import PLACES, kept_in

VALUES = [{"é": [1, None]}, "text", [1.5], 7, None, "x" * 400_000]


@pytest.fixture(params=PLACES)
def results(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResultStore]:
    monkeypatch.setattr(nats_objects, "_PATIENCE_S", 60.0)  # a busy machine may stand still for some seconds
    with kept_in(request.param, tmp_path) as results:
        yield results


@pytest.mark.req("RES-01", "RES-02")
@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value)[:10])
def test_a_value_is_read_back_unchanged_and_its_reference_is_complete(results: ResultStore, value: object) -> None:
    reference = results.put(value)

    body = msgspec.json.encode(value)
    assert results.load(reference) == value
    assert results.body(reference.checksum) == body
    assert (reference.store, reference.size) == (results.store, len(body))
    assert (reference.checksum, bool(reference.key)) == (hashlib.sha256(body).hexdigest(), True)


@pytest.mark.req("RES-01", "RES-02")
async def test_sent_and_stored_values_are_equal_and_so_are_fetched_and_loaded_ones(results: ResultStore) -> None:
    body = msgspec.json.encode(list(range(100_000)))
    checksum = hashlib.sha256(body).hexdigest()

    await results.send(body)

    assert await results.fetch(checksum) == results.body(checksum) == body
    assert results.put(list(range(100_000))).checksum == checksum


@pytest.mark.req("RES-06")
@pytest.mark.parametrize("checksum", ["0" * 64, "../../etc/passwd", ""])
async def test_a_missing_result_raises_result_missing(results: ResultStore, checksum: str) -> None:
    with pytest.raises(ToolError) as read:
        results.body(checksum)
    with pytest.raises(ToolError) as fetched:
        await results.fetch(checksum)

    assert read.value.kind == fetched.value.kind == "result.missing"


def test_equal_values_are_stored_once(results: ResultStore) -> None:
    assert results.put([1, 2]) == results.put([1, 2])

    assert len(results.untouched(before=time.time() + 60)) == 1


@pytest.mark.req("EVT-01")
def test_untouched_results_are_listed_and_dropped(results: ResultStore) -> None:
    one, other = results.put(["one"]), results.put(["other"])
    later = time.time() + 60

    assert results.untouched(before=time.time() - 60) == []
    assert sorted(results.untouched(before=later)) == sorted([one.checksum, other.checksum])
    assert not results.drop(one.checksum, before=time.time() - 60)
    assert results.load(one) == ["one"]

    assert results.drop(one.checksum, before=later)
    assert not results.drop(one.checksum, before=later)
    assert results.untouched(before=later) == [other.checksum]
    with pytest.raises(ToolError, match="result"):
        results.load(one)


def test_a_dropped_result_can_be_stored_again(results: ResultStore) -> None:
    reference = results.put(["one"])
    results.drop(reference.checksum, before=time.time() + 60)

    assert results.load(results.put(["one"])) == ["one"]


class Away(MemoryResults):
    """It lists and drops, and cannot be read."""

    def body(self, checksum: str) -> bytes:
        raise BackendError("away")


def retention(store: MemoryStore, results: ResultStore) -> Retention:
    return Retention(store, results, SystemClock(), default_s=None, grace_s=-60.0)  # whatever is there is old enough


@pytest.mark.req("EVT-01")
async def test_unreferenced_results_are_collected_and_nested_references_are_followed(
    results: ResultStore,
) -> None:
    inner = results.put(["inner"])
    outer, gone = results.put({"holds": msgspec.to_builtins(inner)}), results.put(["gone"])
    store = MemoryStore()
    await ended(store, "x1", None, msgspec.to_builtins(outer))

    assert (await retention(store, results).planned()).results == 1
    assert (await retention(store, results).run()).results == 1

    assert sorted(results.untouched(before=time.time() + 60)) == sorted([inner.checksum, outer.checksum])
    with pytest.raises(ToolError):
        results.load(gone)


@pytest.mark.req("EVT-01")
async def test_nothing_is_collected_while_references_cannot_be_read() -> None:
    store, results = MemoryStore(), Away()
    inner = results.put(["inner"])
    await ended(store, "x1", None, msgspec.to_builtins(results.put({"holds": msgspec.to_builtins(inner)})))

    with pytest.raises(BackendError, match="away"):
        await retention(store, results).run()

    assert len(results.untouched(before=time.time() + 60)) == 2


def test_an_empty_results_store_lists_nothing_untouched(results: ResultStore) -> None:
    assert results.untouched(before=time.time() + 60) == []


@pytest.mark.req("RES-01", "RES-02")
async def test_a_table_is_read_back_as_the_same_file(results: ResultStore, tmp_path: Path) -> None:
    file, copy = tmp_path / "rows.parquet", tmp_path / "copy.parquet"
    file.write_bytes(b"PAR1" + bytes(range(256)) * 4_000)

    checksum = await results.send_file(file)
    assert await results.send_file(file) == checksum == hashlib.sha256(file.read_bytes()).hexdigest()
    await results.fetch_file(checksum, copy)

    assert copy.read_bytes() == file.read_bytes()
    there = results.table_file(checksum)
    assert there is None or there.read_bytes() == file.read_bytes()


@pytest.mark.req("EVT-01")
async def test_a_table_is_listed_and_dropped_like_a_value(results: ResultStore, tmp_path: Path) -> None:
    file, later = tmp_path / "rows.parquet", time.time() + 60
    file.write_bytes(b"PAR1 and more")
    checksum, value = await results.send_file(file), results.put(["value"])

    assert sorted(results.untouched(before=later)) == sorted([checksum, value.checksum])
    assert not results.drop(checksum, before=time.time() - 60)
    assert results.drop(checksum, before=later)

    assert results.untouched(before=later) == [value.checksum]
    with pytest.raises(ToolError, match=r"cannot be read|is gone"):
        await results.fetch_file(checksum, tmp_path / "copy.parquet")


@pytest.mark.req("RES-06")
@pytest.mark.parametrize("checksum", ["0" * 64, "../../etc/passwd", ""])
async def test_a_missing_table_raises_result_missing(results: ResultStore, checksum: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError) as fetched:
        await results.fetch_file(checksum, tmp_path / "copy.parquet")

    assert fetched.value.kind == "result.missing"


@pytest.mark.req("EVT-01")
async def test_a_table_that_an_execution_references_is_not_collected(results: ResultStore, tmp_path: Path) -> None:
    file, store = tmp_path / "rows.parquet", MemoryStore()
    file.write_bytes(b"PAR1 named")
    named = await results.send_file(file)
    file.write_bytes(b"PAR1 not named")
    await results.send_file(file)
    await ended(store, "x1", None, {"ref": {"checksum": named}})

    assert (await retention(store, results).run()).results == 1

    assert results.untouched(before=time.time() + 60) == [named]
