"""Looking at what is recorded: filters, pages and prefixes, the same in every backend."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.events.control import Emitted
from noetl.events.steps import CtxPatched, StepDone
from noetl.events.waits import TimerScheduled
from noetl.store.contract import EventFilter, Store
from tests.contracts.commits import commit, event


async def write(store: Store, execution_id: str, *, at: float, path: str = "p", status: str = "running") -> None:
    one = commit(event(1, execution_id=execution_id), status=status)
    row = msgspec.structs.replace(one.execution, created_at=at, path=path)
    await store.commit([msgspec.structs.replace(one, execution=row)])


@pytest.mark.parametrize(
    ("only", "seqs"),
    [
        (EventFilter(), [1, 2, 3, 4, 5]),
        (EventFilter(types=("ctx.patched",)), [2, 4]),
        (EventFilter(types=("token.*", "step.done")), [1, 3]),
        (EventFilter(types=("audit.required",)), [5]),
        (EventFilter(step="b"), [4]),
        (EventFilter(limit=2), [1, 2]),
        (EventFilter(limit=2, newest=True), [4, 5]),
        (EventFilter(types=("ctx.*",), limit=1, newest=True), [4]),
        (EventFilter(limit=9, newest=True), [1, 2, 3, 4, 5]),
        (EventFilter(types=("nothing",)), []),
    ],
)
async def test_events_are_filtered_by_type_step_and_number(store: Store, only: EventFilter, seqs: list[int]) -> None:
    elsewhere = msgspec.structs.replace(event(4, payload=CtxPatched(patch={})), step="b")
    own = event(5, payload=Emitted(emitted="audit.required"))
    events = [event(1), event(2, payload=CtxPatched(patch={})), event(3, payload=StepDone()), elsewhere, own]
    await store.commit([commit(*events)])

    assert [one.seq for one in await store.events("x1", only=only)] == seqs


async def test_filtered_events_start_after_a_number(store: Store) -> None:
    await store.commit([commit(*(event(seq) for seq in range(1, 6)))])

    assert [one.seq for one in await store.events("x1", after=2, only=EventFilter(limit=2))] == [3, 4]
    assert [one.seq for one in await store.events("x1", after=4, only=EventFilter(limit=2, newest=True))] == [5]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({}, ["x4", "x2", "x3", "x1"]),
        ({"status": "failed"}, ["x3"]),
        ({"path": "etl/orders"}, ["x2", "x1"]),
        ({"path": "etl/*"}, ["x2", "x3", "x1"]),
        ({"path": "etl"}, []),
        ({"limit": 2}, ["x4", "x2"]),
        ({"limit": 2, "beyond": "x2"}, ["x3", "x1"]),
        ({"beyond": "x1"}, []),
    ],
)
async def test_executions_are_listed_newest_first_and_page_by_page(
    store: Store, wanted: dict[str, Any], ids: list[str]
) -> None:
    """x2 and x3 began in the same moment: a page that ends between them loses neither."""
    await write(store, "x1", at=1.0, path="etl/orders")
    await write(store, "x2", at=2.0, path="etl/orders")
    await write(store, "x3", at=2.0, path="etl/users", status="failed")
    await write(store, "x4", at=3.0, path="other")

    assert [row.execution_id for row in await store.executions(**wanted)] == ids


async def test_executions_are_found_by_an_id_prefix(store: Store) -> None:
    for execution_id in ("ab1", "ab2", "b%1"):
        await write(store, execution_id, at=1.0)

    assert await store.begin_with("ab") == ["ab1", "ab2"]
    assert await store.begin_with("ab", limit=1) == ["ab1"]
    assert await store.begin_with("b%") == ["b%1"]
    assert await store.begin_with("%") == []


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({"since": 2.0}, ["x3", "x2"]),
        ({"until": 2.0}, ["x1"]),
        ({"since": 2.0, "until": 3.0}, ["x2"]),
        ({"text": "ORDers"}, ["x1"]),
        ({"text": "X2"}, ["x2"]),
        ({"text": "ÉTÉ"}, []),
        ({"text": "été"}, ["x3"]),
        ({"text": "%"}, []),
        ({"labels": {"team": "a"}}, ["x3", "x1"]),
        ({"labels": {"team": "a", "tier": "1"}}, ["x1"]),
        ({"labels": {"live": "true"}}, ["x3"]),
        ({"labels": {'a"b': "c"}}, []),
        ({"labels": {"team": "a"}, "since": 2.0, "limit": 1}, ["x3"]),
    ],
)
@pytest.mark.req("SRV-09")
async def test_executions_are_found_by_time_text_and_labels(
    store: Store, wanted: dict[str, Any], ids: list[str]
) -> None:
    nets = {"n1": {"team": "a", "tier": 1}, "n2": {"team": "b"}, "n3": {"team": "a", "live": True}}
    for number, (net_hash, path) in enumerate([("n1", "etl/Orders"), ("n2", "etl/users"), ("n3", "été/ÉTE")], 1):
        one = commit(event(1, execution_id=f"x{number}"))
        row = msgspec.structs.replace(one.execution, created_at=float(number), path=path, net_hash=net_hash)
        net = msgspec.json.encode({"metadata": {"labels": nets[net_hash]}})
        await store.commit([msgspec.structs.replace(one, execution=row, net=net)])

    assert [row.execution_id for row in await store.executions(**wanted)] == ids


async def test_executions_that_moved_since_a_cursor_are_listed(store: Store) -> None:
    await write(store, "x1", at=1.0)
    cursor = (await store.moved(None)).cursor
    assert (await store.moved(cursor)).positions.get("x2") is None

    await write(store, "x2", at=2.0)
    await store.commit([commit(event(2, execution_id="x1"), after=1)])
    later = await store.moved(cursor)

    assert (later.positions["x1"], later.positions["x2"]) == (2, 1)
    again = await store.moved(later.cursor)  # some may be told twice
    assert set(again.positions) <= {"x1", "x2"}


async def test_executions_that_ended_since_a_cursor_are_listed(store: Store) -> None:
    await write(store, "x1", at=1.0)
    cursor = (await store.moved(None)).cursor
    one = commit(event(2, execution_id="x1"), after=1)
    ended = msgspec.structs.replace(one.execution, status="completed", finished_at=9.0)
    await store.commit([msgspec.structs.replace(one, execution=ended)])

    assert (await store.moved(cursor)).positions["x1"] == 2


async def test_a_foreign_cursor_is_harmless(store: Store) -> None:
    await write(store, "x1", at=1.0)
    for cursor in ("", "nonsense", "9" * 15, "1.2/x"):
        assert (await store.moved(cursor)).cursor


async def test_a_timer_is_found_by_its_id(store: Store) -> None:
    scheduled = TimerScheduled(wait_id="w1", timer_id='"wait_id":"w2"', due_at=5.0)
    await store.commit([commit(event(1), event(2, payload=scheduled))])

    assert await store.timed("w1") == "x1"
    assert await store.timed("w2") is None
