"""Ended executions are deleted completely after their time; values with a reference stay (reliability.md §3.6,
EVT-01)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.control.background.retention import Retention, kept_for
from noetl.events.outcomes import Reference
from noetl.store.contract import Store
from noetl.store.memory import MemoryStore
from noetl.store.results.files import FileResults
from tests.control.background.ended_executions import ended

DAY = 86_400.0
NOW = 1_000 * DAY


class At:
    def now(self) -> float:
        return NOW


def retention(store: Store, results: FileResults, default_s: float | None = 90 * DAY) -> Retention:
    return Retention(store, results, At(), default_s=default_s)


def aged(folder: Path, reference: Reference, days: float) -> None:
    os.utime(folder / reference.key, (NOW - days * DAY, NOW - days * DAY))


def is_kept(folder: Path, reference: Reference) -> bool:
    return (folder / reference.key).exists()


@pytest.mark.req("EVT-01")
async def test_the_retention_of_a_playbook_overrides_the_default(tmp_path: Path) -> None:
    store, results = MemoryStore(), FileResults(tmp_path)
    await ended(store, "old", NOW - 91 * DAY)
    await ended(store, "young", NOW - 89 * DAY)
    await ended(store, "open", None)
    await ended(store, "short", NOW - 2 * DAY, retention="1d", path="s")
    await ended(store, "long", NOW - 400 * DAY, retention="P900D", path="l")

    planned = await retention(store, results).planned()
    assert {one.path: one.executions for one in planned.executions} == {"p": 1, "s": 1}
    assert len(await store.executions()) == 5, "planning removes nothing"

    assert (await retention(store, results).run()).total == 2
    assert {row.execution_id for row in await store.executions()} == {"young", "open", "long"}


async def test_without_a_default_only_playbooks_with_a_retention_lose_executions(tmp_path: Path) -> None:
    store, results = MemoryStore(), FileResults(tmp_path)
    await ended(store, "old", NOW - 9_000 * DAY)
    await ended(store, "short", NOW - 2 * DAY, retention="1d", path="s")

    assert (await retention(store, results, None).run()).total == 1
    assert await store.execution("old") is not None


async def test_many_executions_are_deleted_in_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    for number in range(120):
        await ended(store, f"x{number}", NOW - 100 * DAY)
    sizes: list[int] = []
    retire = store.retire

    async def noted(execution_ids: Any) -> int:
        sizes.append(len(execution_ids))
        return await retire(execution_ids)

    monkeypatch.setattr(store, "retire", noted)
    assert (await retention(store, FileResults(tmp_path)).run()).total == 120
    assert sizes == [50, 50, 20]


async def test_results_are_deleted_if_unreferenced_and_not_recently_stored(tmp_path: Path) -> None:
    store, results = MemoryStore(), FileResults(tmp_path)
    inner = results.put(["inner"])
    outer = results.put({"holds": msgspec.to_builtins(inner)})
    gone, named, fresh = results.put(["gone"]), results.put(["named"]), results.put(["fresh"])
    for one in (inner, outer, gone, named):
        aged(tmp_path, one, 100)
    aged(tmp_path, fresh, 0.5)
    await ended(store, "old", NOW - 100 * DAY, msgspec.to_builtins(gone))
    await ended(store, "kept", NOW - 1 * DAY, msgspec.to_builtins(named), msgspec.to_builtins(outer))

    removed = await retention(store, results).run()

    assert (removed.total, removed.results) == (1, 1)
    assert not is_kept(tmp_path, gone)
    assert all(is_kept(tmp_path, one) for one in (inner, outer, named, fresh))


async def test_a_result_stored_again_during_collection_is_retained(tmp_path: Path) -> None:
    results = FileResults(tmp_path)
    reference = results.put(["again"])
    aged(tmp_path, reference, 100)
    assert results.untouched(before=NOW) == [reference.checksum]

    results.put(["again"])

    assert not results.drop(reference.checksum, before=NOW)
    assert results.load(reference) == ["again"]


@pytest.mark.parametrize(
    ("written", "kept_s"), [(None, 7.0), ("1d", DAY), (60, 60.0), ("PT1H", 3600.0), ("soon", 7.0), (["x"], 7.0)]
)
def test_an_invalid_retention_is_ignored(written: Any, kept_s: float) -> None:
    assert kept_for(written, 7.0) == kept_s
