"""The promises of requests to who drives an execution, kept by every backend (SRV-07, SRV-11)."""

from __future__ import annotations

import msgspec

from noetl.store.contract import Store
from tests.contracts.commits import commit, event


async def test_requests_wait_in_order_until_each_is_answered_once(store: Store) -> None:
    first = await store.requests.ask("x1", "pause", reason="lunch", at=1.0)
    second = await store.requests.ask("x1", "cancel", reason=None, at=2.0)
    assert [(one.request_id, one.action, one.reason) for one in await store.requests.pending()] == [
        (first, "pause", "lunch"),
        (second, "cancel", None),
    ]

    await store.requests.answer(first, "accepted", at=3.0)
    await store.requests.answer(first, "duplicate", at=4.0)

    assert [one.request_id for one in await store.requests.pending()] == [second]
    answered = await store.requests.get(first)
    assert answered is not None
    assert (answered.answer, answered.answered_at) == ("accepted", 3.0)
    assert await store.requests.get(99) is None


async def test_the_children_of_an_execution_are_listed(store: Store) -> None:
    for number, parent in ((1, None), (2, "x1"), (3, "x1"), (4, "x2")):
        one = commit(event(1, execution_id=f"x{number}"))
        row = msgspec.structs.replace(one.execution, parent_execution_id=parent, created_at=float(-number))
        await store.commit([msgspec.structs.replace(one, execution=row)])

    assert [row.execution_id for row in await store.children("x1")] == ["x3", "x2"]
    assert await store.children("x4") == []
    row_of_two = await store.execution("x2")
    assert row_of_two is not None
    assert row_of_two.parent_execution_id == "x1"
