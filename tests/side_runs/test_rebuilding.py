"""The orders of side runs can be told from the log alone, like any other (EVT-01)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.store.inspection import derived_rows
from noetl.store.memory import MemoryStore
from tests.crash_runs import Recording, drive
from tests.engine_script import net_of
from tests.playbook_runs import Scripted, broken
from tests.side_runs.async_playbook import ASYNC as ASYNC
from tests.side_runs.sagas import ORDER


@pytest.mark.req("EVT-01", "SAGA-03", "TOOL-12")
@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (ORDER, {"start_task": {"id": 1}, "charge_task": {"id": 2}, "ship_task": broken()}),
        (ASYNC, {"first": {"id": 7}}),
    ],
)
async def test_orders_are_rebuilt_from_the_log_after_every_commit(text: str, answers: dict[str, Any]) -> None:
    whole = Recording()
    await drive(net_of(text), whole, Scripted(**answers), resumed=False)

    store = MemoryStore()
    for commits in whole.commits:
        await store.commit(commits)
        derived = derived_rows(await store.events("x1"))
        told = {(row.order_id, row.state, row.lease_epoch, row.pool) for row in derived.orders}
        kept = {(row.order_id, row.state, row.lease_epoch, row.pool) for row in await store.orders("x1")}
        assert kept <= told
