"""The promises of a store, kept by every backend (EVT-01, EVT-02, EVT-06, reliability.md §3.1)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from noetl.base.errors import BackendError
from noetl.events.executions import Final, PlaybookProcessed
from noetl.events.outcomes import Error
from noetl.events.steps import CtxPatched, StepDone, StepFailed
from noetl.store.contract import ConflictError, OrderState, Store, TakenError
from noetl.store.row_summary import RowSummary
from tests.contracts.commits import commit, event, order


@pytest.mark.req("EVT-02")
async def test_events_are_read_back_unchanged_and_in_order(store: Store) -> None:
    events = [event(1), event(2, payload=CtxPatched(patch={"k": [1, {"é": None}]})), event(3, payload=StepDone())]

    await store.commit([commit(*events)])

    assert await store.events("x1") == events
    assert await store.events("x1", after=2) == events[2:]
    assert await store.events("unknown") == []


async def test_a_commit_based_on_an_older_position_is_refused(store: Store) -> None:
    await store.commit([commit(event(1), event(2))])

    with pytest.raises(ConflictError):
        await store.commit([commit(event(2, event_id="other"), after=1)])

    assert len(await store.events("x1")) == 2


@pytest.mark.req("TMR-05", "MSG-04")
async def test_a_done_step_run_can_still_fail_in_its_waits(store: Store) -> None:
    """The server says so on its worker's behalf, or on its own after a step without tasks."""
    failed = event(2, payload=StepFailed(error=Error(kind="timeout", message="m")))

    for execution_id, is_ours in (("x1", False), ("x2", True)):
        ends = [
            msgspec.structs.replace(one, execution_id=execution_id, trace_id="t" + execution_id, on_behalf=on_behalf)
            for one, on_behalf in ((event(1, payload=StepDone()), is_ours), (failed, True))
        ]
        await store.commit([commit(ends[0])])
        await store.commit([commit(ends[1], after=1)])

        assert [one.event_type for one in await store.events(execution_id)] == ["step.done", "step.failed"]


@pytest.mark.req("EVT-06")
async def test_an_event_id_is_stored_once(store: Store) -> None:
    await store.commit([commit(event(1))])

    with pytest.raises(ConflictError):
        await store.commit([commit(event(2, event_id="e1"), after=1)])

    assert [one.seq for one in await store.events("x1")] == [1]


@pytest.mark.req("EVT-06")
async def test_an_event_has_an_id_from_its_position_or_its_own_name(store: Store) -> None:
    """The name of a position belongs to the event that lies there (docs/decisions/0018)."""
    events = [event(1, event_id="x1/1"), event(2, event_id="own"), event(3, event_id="x1/3")]

    await store.commit([commit(*events)])

    assert await store.events("x1") == events
    for taken in ("x1/1", "x1/9", "own"):
        with pytest.raises(ConflictError):
            await store.commit([commit(event(4, event_id=taken), after=3)])
    await store.commit([commit(event(4, event_id="x1/4"), after=3)])
    assert [one.event_id for one in await store.events("x1")] == ["x1/1", "own", "x1/3", "x1/4"]


async def test_an_execution_starts_once(store: Store) -> None:
    await store.commit([commit(event(1))])

    with pytest.raises(TakenError):
        await store.commit([commit(event(1))])


async def test_one_of_two_concurrent_starts_wins_for_good(store: Store) -> None:
    ended = await asyncio.gather(*(store.commit([commit(event(1))]) for _ in range(4)), return_exceptions=True)

    assert sorted(type(one).__name__ for one in ended) == ["NoneType"] + ["TakenError"] * 3


async def test_a_commit_of_several_executions_is_all_or_nothing(store: Store) -> None:
    await store.commit([commit(event(1))])
    good = commit(event(1, execution_id="x2"))
    stale = commit(event(1, event_id="again"))

    with pytest.raises(ConflictError):
        await store.commit([good, stale])

    assert await store.events("x2") == []
    assert await store.execution("x2") is None


async def test_the_row_of_an_execution_follows_its_commits(store: Store) -> None:
    await store.commit([commit(event(1))])
    end = event(2, payload=PlaybookProcessed(status=Final.COMPLETED))
    await store.commit([commit(end, after=1, status="completed")])

    row = await store.execution("x1")

    assert row is not None
    assert (row.status, row.last_seq, row.created_at) == ("completed", 2, 1000.0)
    assert [one.execution_id for one in await store.executions()] == ["x1"]


async def test_the_row_of_an_execution_counts_failed_iterations(store: Store) -> None:
    for after, figures in enumerate([(0, 0), (1, 1000), (7, 1000)]):
        one = commit(event(after + 1), after=after)
        row = msgspec.structs.replace(one.execution, failed_iterations=figures[0], iterations=figures[1])
        await store.commit([msgspec.structs.replace(one, execution=row)])

        assert await store.execution("x1") == row
        assert await store.executions() == [row]


async def test_a_row_keeps_its_summary_and_is_found_by_the_reason_of_its_failure(
    store: Store,
) -> None:
    reasons = {"x1": ("http.timeout", "call"), "x2": ("http.timeout", "load"), "x3": ("python", "call"), "x4": None}
    rows = {}
    for execution_id, reason in reasons.items():
        one = commit(event(1, execution_id=execution_id))
        told = RowSummary(seq=1, unrun=3, error=reason[0], step=reason[1]) if reason is not None else None
        rows[execution_id] = msgspec.structs.replace(one.execution, summary=told)
        await store.commit([msgspec.structs.replace(one, execution=rows[execution_id])])

    async def found(**wanted: str) -> set[str]:
        return {row.execution_id for row in await store.executions(**wanted)}  # type: ignore[arg-type]

    assert {row.execution_id: row for row in await store.executions()} == rows
    assert await found(error="http.timeout") == {"x1", "x2"}
    assert await found(error="http.timeout", step="call") == {"x1"}
    assert await found(step="nowhere") == set()
    moved = commit(event(2, execution_id="x1"), after=1)
    await store.commit([moved])
    assert await store.execution("x1") == moved.execution, "what it said before is gone"


async def test_lists_show_the_newest_execution_first(store: Store) -> None:
    for number in (1, 2, 3):
        one = commit(event(1, execution_id=f"x{number}"))
        row = msgspec.structs.replace(one.execution, created_at=float(number))
        await store.commit([msgspec.structs.replace(one, execution=row)])

    assert [row.execution_id for row in await store.executions(limit=2)] == ["x3", "x2"]


@pytest.mark.req("WRK-03")
async def test_an_order_is_ready_then_leased_then_gone(store: Store) -> None:
    await store.commit([commit(event(1), orders=(order(),))])
    assert [row.state for row in await store.claimable(now=0, limit=9)] == [OrderState.READY]

    await store.commit([commit(event(2), after=1, orders=(order(OrderState.LEASED, 1, until=50.0),))])
    assert await store.claimable(now=49, limit=9) == []
    [held] = await store.orders("x1")
    assert (held.lease_owner, held.lease_epoch) == ("w", 1)

    await store.commit([commit(event(3), after=2, orders=(order(OrderState.CLOSED, 1),))])
    assert await store.orders("x1") == []


@pytest.mark.req("WRK-03")
async def test_an_expired_lease_is_claimable_and_its_epoch_fences(store: Store) -> None:
    await store.commit([commit(event(1), orders=(order(OrderState.LEASED, 1, until=50.0),))])

    [expired] = await store.claimable(now=51, limit=9)
    assert expired.lease_epoch == 1
    await store.commit([commit(event(2), after=1, orders=(order(OrderState.LEASED, 2, until=90.0),))])

    assert not await store.renew("o1", lease_epoch=1, lease_until=99.0)
    assert await store.renew("o1", lease_epoch=2, lease_until=99.0)
    assert not await store.renew("o1", lease_epoch=2, lease_until=99.0, owner="somebody else")
    assert await store.renew("o1", lease_epoch=2, lease_until=99.0, owner="w")
    with pytest.raises(ConflictError):
        await store.commit([commit(event(3), after=2, orders=(order(OrderState.CLOSED, 1),))])
    assert len(await store.events("x1")) == 2, "what belongs to a refused order is not stored either"


async def test_an_order_is_created_and_leased_in_one_commit(store: Store) -> None:
    await store.commit([commit(event(1), orders=(order(OrderState.LEASED, 1, until=50.0),))])

    with pytest.raises(ConflictError):
        await store.commit([commit(event(2), after=1, orders=(order(OrderState.LEASED, 1, until=60.0),))])


async def test_a_net_is_stored_by_its_hash(store: Store) -> None:
    await store.commit([commit(event(1))])

    assert await store.net("h") == b"{}"
    with pytest.raises(BackendError, match="no net"):
        await store.net("other")
