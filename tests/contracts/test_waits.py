"""The promises about waits and messages, kept by every backend (MSG-01 to MSG-05)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.store.contract import Store, TakenError
from noetl.store.waits import MESSAGE, SIGNAL, WaitRow, canonical, parts_of
from tests.contracts.commits import message, step


def wait(wait_id: str, *, at: float = 1.0, name: str = "paid", kind: str = MESSAGE, **correlation: Any) -> WaitRow:
    return WaitRow(
        wait_id=wait_id,
        execution_id="x1",
        step_run_id="r" + wait_id,
        kind=kind,
        name=name,
        correlation=canonical(correlation),
        opened_at=at,
    )


def ids(rows: list[WaitRow]) -> list[str]:
    return [row.wait_id for row in rows]


@pytest.mark.req("MSG-01")
async def test_waits_are_found_by_kind_and_name_oldest_first(store: Store) -> None:
    waits = (wait("a", at=3.0), wait("b", at=1.0), wait("c", at=2.0, name="other"), wait("d", kind=SIGNAL))
    await store.commit([step(1, waits=waits)])

    assert ids(await store.waits.waiting(MESSAGE, "paid")) == ["b", "a"]
    assert ids(await store.waits.waiting(SIGNAL, "paid")) == ["d"]
    assert ids(await store.waits.of("x1")) in (["b", "d", "c", "a"], ["d", "b", "c", "a"])
    assert await store.waits.of("x2") == []
    assert (await store.waits.waiting(MESSAGE, "other"))[0] == waits[2]


async def test_waits_opened_at_the_same_time_are_listed_in_order(store: Store) -> None:
    await store.commit([step(1, waits=tuple(wait(name) for name in ("c", "a", "b")))])

    assert ids(await store.waits.waiting(MESSAGE, "paid")) == ["c", "a", "b"]


@pytest.mark.req("MSG-01")
async def test_a_message_matches_waits_on_any_part_of_its_correlation(store: Store) -> None:
    waits = (
        wait("all", at=1.0, order=7, shop="é"),
        wait("part", at=2.0, order=7),
        wait("none", at=3.0),
        wait("other", at=4.0, order=8),
        wait("text", at=5.0, order="7"),
    )
    await store.commit([step(1, waits=waits)])

    found = await store.waits.waiting(MESSAGE, "paid", parts_of({"shop": "é", "order": 7, "more": None}))

    assert ids(found) == ["all", "part", "none"]
    assert await store.waits.waiting(MESSAGE, "paid", []) == []


@pytest.mark.req("MSG-01")
@pytest.mark.parametrize(
    ("awaited", "sent", "fits"),
    [
        (7, 7.0, True),
        (7.0, 7, True),
        ({"at": [0.0, -0.0]}, {"at": [0, 0]}, True),
        (1e300, 1e300, True),
        (7, "7", False),
        (1, True, False),
        (7, 7.5, False),
    ],
)
async def test_equal_numbers_in_correlations_match_in_every_notation(
    store: Store, awaited: Any, sent: Any, fits: bool
) -> None:
    """A template that divides gives 7.0, and its message says 7."""
    await store.commit([step(1, waits=(wait("a", order=awaited),))])

    assert ids(await store.waits.waiting(MESSAGE, "paid", parts_of({"order": sent}))) == (["a"] if fits else [])


@pytest.mark.req("MSG-01")
def test_values_too_long_for_a_correlation_are_not_looked_up() -> None:
    """Each of eight keys with 100 kB would give 256 texts, and 100 MB of them."""
    long = {f"k{number}": "x" * 100_000 for number in range(7)}

    assert parts_of({**long, "order": 7}) == ["{}", '{"order":7}']


async def test_a_wait_changes_and_closes_with_its_commit(store: Store) -> None:
    await store.commit([step(1, waits=(wait("a"), wait("b")))])
    await store.commit([step(2, waits=(wait("a", name="refunded"),), closed_waits=("b", "unknown"))])

    assert ids(await store.waits.of("x1")) == ["a"]
    assert ids(await store.waits.waiting(MESSAGE, "refunded")) == ["a"]
    assert await store.waits.waiting(MESSAGE, "paid") == []


async def test_a_wait_opened_and_closed_in_one_commit_is_not_listed(store: Store) -> None:
    await store.commit([step(1, waits=(wait("a"),), closed_waits=("a",))])

    assert await store.waits.of("x1") == []


@pytest.mark.req("MSG-02")
async def test_a_message_is_stored_once_and_read_back_unchanged(store: Store) -> None:
    first = message("m1", correlation={"order": [1, None]}, payload={"é": 1.5})

    assert await store.waits.keep(first)
    assert not await store.waits.keep(message("m1", payload="another"))

    assert await store.waits.message("m1") == first
    assert await store.waits.message("m2") is None


@pytest.mark.req("MSG-03")
async def test_messages_are_listed_oldest_first_until_they_expire(store: Store) -> None:
    for one in (message("late", at=3.0), message("first", at=1.0), message("short", at=2.0, until=10.0)):
        await store.waits.keep(one)
    await store.waits.keep(message("other", name="refunded", until=20.0))

    assert [one.message_id for one in await store.waits.stored_messages("paid", now=9.9)] == ["first", "short", "late"]
    assert [one.message_id for one in await store.waits.stored_messages("paid", now=10.0)] == ["first", "late"]
    assert await store.waits.names_kept(now=5.0) == ["paid", "refunded"]
    assert await store.waits.names_kept(now=50.0) == ["paid"]
    assert await store.waits.discard(before=20.0) == 2
    assert await store.waits.message("short") is None
    assert await store.waits.discard(before=20.0) == 0


@pytest.mark.req("MSG-02")
async def test_a_message_is_taken_by_one_execution_only(store: Store) -> None:
    await store.waits.keep(message("m1"))
    await store.commit([step(1, taken_messages=("m1",))])
    taken = await store.waits.message("m1")
    assert taken is not None
    assert taken.taken_by == "x1"
    assert await store.waits.stored_messages("paid", now=1.0) == []
    assert await store.waits.names_kept(now=1.0) == []

    with pytest.raises(TakenError):
        await store.commit([step(1, execution_id="x2", taken_messages=("m1",))])
    with pytest.raises(TakenError):
        await store.commit([step(1, execution_id="x3", taken_messages=("unknown",))])

    assert await store.execution("x2") is None, "what was decided on another's message is not stored"
    assert not await store.waits.keep(message("m1")), "its id is remembered"


@pytest.mark.req("MSG-02")
async def test_one_of_several_concurrent_takers_gets_a_message(store: Store) -> None:
    await store.waits.keep(message("m1"))
    takers = [store.commit([step(1, execution_id=f"x{n}", taken_messages=("m1",))]) for n in range(5)]

    ended = await asyncio.gather(*takers, return_exceptions=True)

    assert sorted(type(one).__name__ for one in ended) == ["NoneType"] + ["TakenError"] * 4
    taken = await store.waits.message("m1")
    assert taken is not None
    assert [row.execution_id for row in await store.executions()] == [taken.taken_by]


async def test_stored_messages_are_counted_by_name(store: Store) -> None:
    for number in range(3):
        await store.waits.keep(message(f"m{number}", until=10.0 * (number + 1)))
    await store.waits.keep(message("other", name="billed"))
    await store.commit([step(1, taken_messages=("m2",))])

    assert await store.waits.count_kept("paid", now=5.0) == 2
    assert await store.waits.count_kept("paid", now=15.0) == 1
    assert await store.waits.count_kept("unknown", now=5.0) == 0
