"""The key-value table: small values by kind and name, replaced by compare and set; in every backend."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.store.contract import Store
from noetl.store.installation import KeyValue, KeyValues


@pytest.fixture
def key_values(store: Store) -> KeyValues:
    return store.key_values


async def test_a_key_value_is_read_back_unchanged_by_kind_and_name(key_values: KeyValues) -> None:
    put = await key_values.put("token", "a", b'{"\xc3\xa9":1}', over=0, at=5.0)

    assert put == KeyValue(kind="token", name="a", version=1, body=b'{"\xc3\xa9":1}', updated_at=5.0)
    assert await key_values.get("token", "a") == put
    assert await key_values.get("pool", "a") is None
    assert await key_values.get("token", "A") is None


async def test_a_key_value_is_replaced_only_over_the_version_that_was_read(key_values: KeyValues) -> None:
    assert await key_values.put("pool", "a", b"0", over=3, at=1.0) is None, "there is nothing to replace"
    assert await key_values.put("pool", "a", b"1", over=0, at=1.0)
    assert await key_values.put("pool", "a", b"2", over=0, at=2.0) is None, "it exists already"
    second = await key_values.put("pool", "a", b"2", over=1, at=3.0)
    assert second is not None
    assert second.version == 2
    assert await key_values.put("pool", "a", b"3", over=1, at=4.0) is None, "it has moved on"

    assert await key_values.get("pool", "a") == second


async def test_one_of_several_concurrent_writers_replaces_a_key_value(key_values: KeyValues) -> None:
    await key_values.put("pool", "a", b"0", over=0, at=1.0)

    put = await asyncio.gather(*(key_values.put("pool", "a", b"%d" % n, over=1, at=2.0) for n in range(5)))

    winners = [one for one in put if one is not None]
    assert winners == [await key_values.get("pool", "a")]


async def test_key_values_of_a_kind_are_listed_by_name_and_paged(key_values: KeyValues) -> None:
    for name in ("b%", "a1", "Z", "a2", "b1", "é"):
        await key_values.put("schedule", name, b"{}", over=0, at=1.0)
    await key_values.put("webhook", "a3", b"{}", over=0, at=1.0)

    async def names(**wanted: Any) -> list[str]:
        return [one.name for one in await key_values.list("schedule", **wanted)]

    assert await names() == ["Z", "a1", "a2", "b%", "b1", "é"]
    assert await names(prefix="a") == ["a1", "a2"]
    assert await names(prefix="b%") == ["b%"]
    assert await names(limit=2) == ["Z", "a1"]
    assert await names(limit=2, beyond="a1") == ["a2", "b%"]
    assert await names(prefix="b", beyond="b%") == ["b1"]


async def test_key_values_are_found_by_many_beginnings_at_once(key_values: KeyValues) -> None:
    for name in ("a/1", "a/2", "ab", "b/1", "c"):
        await key_values.put("rerun", name, name.encode(), over=0, at=1.0)
    await key_values.put("other", "a/3", b"", over=0, at=1.0)

    found = await key_values.beginning("rerun", ["a/", "b", "b/1", "nobody"])

    assert [(row.name, row.body) for row in found] == [("a/1", b"a/1"), ("a/2", b"a/2"), ("b/1", b"b/1")]
    assert await key_values.beginning("rerun", []) == []


async def test_a_key_value_is_deleted_only_at_the_version_that_was_read(key_values: KeyValues) -> None:
    await key_values.put("pool", "a", b"1", over=0, at=1.0)
    await key_values.put("pool", "a", b"2", over=1, at=1.0)

    assert not await key_values.delete("pool", "a", version=1)
    assert await key_values.delete("pool", "a", version=2)
    assert not await key_values.delete("pool", "a")
    again = await key_values.put("pool", "a", b"1", over=0, at=1.0)
    assert again is not None
    assert again.version == 1
    assert await key_values.delete("pool", "a")


async def test_key_values_untouched_for_long_are_swept(key_values: KeyValues) -> None:
    await key_values.put("key", "old", b"1", over=0, at=1.0)
    await key_values.put("key", "touched", b"1", over=0, at=1.0)
    await key_values.put("key", "touched", b"1", over=1, at=9.0)
    await key_values.put("other", "old", b"1", over=0, at=1.0)

    assert await key_values.sweep("key", before=9.0) == 1
    assert [one.name for one in await key_values.list("key")] == ["touched"]
    assert len(await key_values.list("other")) == 1
