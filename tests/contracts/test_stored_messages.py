"""Undelivered messages: listed in order, deleted once or delivered once, never both (MSG-03)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.store.contract import ConflictError, Store, TakenError
from noetl.store.waits import KeptRow
from tests.contracts.commits import message, step

NOW = 5.0


async def kept(store: Store, **asked: Any) -> list[str]:
    return [one.message_id for one in await store.waits.newest_kept(now=NOW, **asked)]


@pytest.mark.req("MSG-03")
async def test_stored_messages_are_listed_newest_first_without_payload(store: Store) -> None:
    await store.waits.keep(message("m1", at=1.0, correlation={"order": 7}, payload={"é": 1}))
    for one in (message("m2", at=2.0, name="billed"), message("m3", at=2.0), message("old", until=NOW)):
        await store.waits.keep(one)
    await store.waits.keep(message("taken", at=4.0))
    await store.commit([step(1, taken_messages=("taken",))])

    assert await kept(store) == ["m3", "m2", "m1"]
    assert await kept(store, name="paid") == ["m3", "m1"]
    assert await kept(store, name="unknown") == []
    assert await kept(store, limit=1) == ["m3"]
    [row] = (await store.waits.newest_kept(now=NOW))[2:]
    assert row == KeptRow(
        message_id="m1", name="paid", correlation={"order": 7}, size_bytes=8, sent_at=1.0, expires_at=100.0
    )


@pytest.mark.req("MSG-03")
async def test_paging_continues_after_messages_of_the_page_are_gone(store: Store) -> None:
    """Whoever deletes what a page shows must not lose the way to the next one."""
    for number in range(6):
        await store.waits.keep(message(f"m{number}", at=float(number // 2)))
    page = await store.waits.newest_kept(now=NOW, limit=3)
    for one in page:
        assert await store.waits.remove(one.message_id, now=NOW)

    assert [one.message_id for one in page] == ["m5", "m4", "m3"]
    assert await kept(store, beyond=page[-1].place, limit=2) == ["m2", "m1"]
    assert await kept(store, beyond=(0.0, "m0")) == []
    assert await kept(store, beyond=(0.0, "m1"), name="paid") == ["m0"]


@pytest.mark.req("MSG-02", "MSG-03")
async def test_a_removed_message_is_gone_and_cannot_be_taken(store: Store) -> None:
    for message_id in ("m1", "m2"):
        await store.waits.keep(message(message_id))

    assert await store.waits.remove("m1", now=NOW)
    assert not await store.waits.remove("m1", now=NOW)

    assert await store.waits.message("m1") is None
    assert await kept(store) == ["m2"]
    assert await store.waits.count_kept("paid", now=NOW) == 1
    with pytest.raises(TakenError):
        await store.commit([step(1, taken_messages=("m1",))])
    assert await store.execution("x1") is None, "what was decided on it is not stored"
    assert await store.waits.keep(message("m1")), "there is room for it again"


@pytest.mark.req("MSG-02")
async def test_taken_and_expired_messages_are_not_removed(store: Store) -> None:
    for one in (message("taken"), message("over", until=NOW), message("other", name="billed")):
        await store.waits.keep(one)
    await store.commit([step(1, taken_messages=("taken",))])

    for message_id in ("taken", "over", "unknown"):
        assert not await store.waits.remove(message_id, now=NOW)
    assert await store.waits.remove_named("paid", now=NOW) == 0

    assert await store.waits.message("over") is not None
    taken = await store.waits.message("taken")
    assert taken is not None
    assert taken.taken_by == "x1"
    assert not await store.waits.keep(message("taken")), "its id is remembered"


@pytest.mark.req("MSG-03")
async def test_removing_all_messages_of_a_name_leaves_other_names(store: Store) -> None:
    for number in range(20):
        await store.waits.keep(message(f"m{number}"))
    for one in (message("other", name="billed"), message("near", name="paid.")):
        await store.waits.keep(one)

    assert await store.waits.remove_named("paid", now=NOW) == 20
    assert await store.waits.remove_named("paid", now=NOW) == 0

    assert sorted(await kept(store)) == ["near", "other"]


@pytest.mark.req("MSG-02")
async def test_a_message_is_either_taken_or_removed_when_both_happen_at_once(store: Store) -> None:
    """Each message is asked for by both, in turn the one and the other first."""
    for number in range(20):
        await store.waits.keep(message(f"m{number}"))
        taking = store.commit([step(1, execution_id=f"x{number}", taken_messages=(f"m{number}",))])
        removing = store.waits.remove(f"m{number}", now=NOW)
        both = [taking, removing] if number % 2 else [removing, taking]

        ended = await asyncio.gather(*both, return_exceptions=True)

        took, removed = ended if number % 2 else ended[::-1]
        there = await store.waits.message(f"m{number}")
        assert (took is None, removed, there is not None) in ((True, False, True), (False, True, False)), ended
        assert took is None or isinstance(took, ConflictError)
        assert (await store.execution(f"x{number}") is not None) == (took is None)


@pytest.mark.req("MSG-02")
async def test_concurrent_takers_and_a_bulk_remover_share_the_messages(store: Store) -> None:
    """Takers of several messages, in either order, beside who removes them all: nobody waits forever."""
    ids = [f"m{number:02}" for number in range(40)]
    for message_id in ids:
        await store.waits.keep(message(message_id))
    pairs = [ids[n : n + 2] if n % 4 else ids[n : n + 2][::-1] for n in range(0, len(ids), 2)]
    taking = [store.commit([step(1, execution_id=f"x{n}", taken_messages=tuple(pair))]) for n, pair in enumerate(pairs)]

    *took, removed = await asyncio.gather(*taking, store.waits.remove_named("paid", now=NOW), return_exceptions=True)

    assert all(one is None or isinstance(one, ConflictError) for one in took), took
    rows = [await store.waits.message(message_id) for message_id in ids]
    taken = [row for row in rows if row is not None and row.taken_by is not None]
    assert len(taken) == 2 * took.count(None)
    left = await store.waits.remove_named("paid", now=NOW)
    assert isinstance(removed, int)
    assert removed + left + len(taken) == len(ids)
