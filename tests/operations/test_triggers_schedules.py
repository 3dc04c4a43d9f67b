"""Backfills are refused for the same spans wherever they are asked for (TMR-01)."""

from __future__ import annotations

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import InvalidError, NotFoundError
from noetl.control.schedules import ScheduleStore
from noetl.net.net import content_hash, to_json
from noetl.operations.local import LocalOperations
from noetl.store.installation import Registration
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from tests.engine_script import HEAD, net_of

HOURLY = HEAD + 'trigger: {timer: {cron: "0 * * * *"}}\nworkflow: [{step: start, tool: {kind: noop}}]\n'


async def scheduled() -> LocalOperations:
    store, clock, net = MemoryStore(), ManualClock(), net_of(HOURLY)
    row = await store.catalog.register(
        Registration(path=net.path, net_hash=content_hash(net), net=to_json(net), label=None, source=None, at=0.0)
    )
    await ScheduleStore(store.key_values).enter(net, row, at=clock.now())
    return LocalOperations(store, MemoryResults(), clock)


@pytest.mark.req("TMR-01")
@pytest.mark.parametrize(
    ("since", "until", "limit", "why"),
    [
        ("2023-01-01", None, 5, "more than 10,000 times"),
        ("2024-12-31", "2024-12-30", 5, "before since"),
        ("2024-12-31", None, 0, "at least one"),
        ("yesterday", None, 5, "is not a time"),
    ],
)
async def test_an_invalid_backfill_range_is_refused(since: str, until: str | None, limit: int, why: str) -> None:
    operations = await scheduled()

    with pytest.raises(InvalidError, match=why):
        await operations.backfill("tests/test", since, until, limit=limit)

    assert (await operations.schedules()).backfills == []


@pytest.mark.req("TMR-01")
async def test_a_backfill_includes_both_ends_and_no_future_times() -> None:
    operations = await scheduled()

    found = await operations.backfill("tests/test", "2024-12-31T22:00:00Z", "2025-01-01T09:00:00Z")

    assert found.times == ["2024-12-31T22:00:00+00:00", "2024-12-31T23:00:00+00:00", "2025-01-01T00:00:00+00:00"]
    assert found.backfill_id is not None


async def test_a_path_without_a_schedule_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="has no schedule"):
        await (await scheduled()).backfill("no/such", "2024-12-31")
