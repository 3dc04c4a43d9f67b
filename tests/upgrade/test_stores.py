"""A store that an earlier program left comes up whole: what is over reads as before, what is open goes on to the end it
would have had (reliability.md §3.8, P11)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from noetl.base.clock import ManualClock
from noetl.control.assembly import assemble
from noetl.control.commit.sharing import SharedExecutions
from noetl.engine.evolve import replay
from noetl.events.envelope import encode_payload
from noetl.store.contract import Store
from noetl.store.inspection import SqlStore, inspected
from noetl.store.open_store import open_store
from noetl.store.postgres.schema import known_migrations as known_to_postgres
from noetl.store.results.files import MemoryResults
from noetl.store.sqlite.database import known_migrations as known_to_sqlite
from noetl.store.wakeups import MemoryWakeups
from noetl.tools.registry import Registry
from noetl.worker.leases import HeldLeases
from noetl.worker.slots import WorkerHandle
from noetl.worker.worker import Worker
from tests.cluster.checkers import fenced_changes_nothing, lost_leases, no_gaps, one_end_each
from tests.contracts.stores import fresh_url
from tests.faults.processes import noetl
from tests.upgrade.goldens import POSTGRES, SQLITE, Rows, make_file, make_schema, migrations_of
from tests.upgrade.store_writing import AT

EVERY = pytest.mark.parametrize("name", [*SQLITE, *POSTGRES])
DAY_S = 86_400
ENDS = {"over": {"double": 6}, "timed": {"double": 10}, "held": {"double": 14}}  # what each has in its ctx then


def _left(name: str, folder: Path) -> tuple[str, Rows]:
    """Where the store is, and its events as they lie there."""
    if name in SQLITE:
        return str(folder / "old.db"), make_file(name, folder / "old.db")
    url = fresh_url()
    return url, asyncio.run(make_schema(name, url))


def _known(name: str) -> list[str]:
    return [one.name for one in (known_to_sqlite() if name in SQLITE else known_to_postgres())]


async def _read(db: str) -> Rows:
    """The events as this program reads them, in the form in which they lie there."""
    store, _ = await open_store(db)
    try:
        logs = [await store.events(one) for one in sorted(ENDS)]
    finally:
        await store.close()
    events = (event for log in logs for event in log)
    return [(e.execution_id, e.seq, e.event_id, e.event_type, json.loads(encode_payload(e.payload))) for e in events]


@EVERY
@pytest.mark.req("SRV-12", "EVT-07")
def test_a_store_of_an_earlier_version_is_migrated_and_reads_as_before(name: str, tmp_path: Path) -> None:
    db, before = _left(name, tmp_path)

    old = noetl("db", "check", "--db", db, "-o", "json", cwd=tmp_path)
    ran = noetl("db", "migrate", "--db", db, "-o", "json", cwd=tmp_path)
    new = noetl("db", "check", "--db", db, "-o", "json", cwd=tmp_path)

    missing = _known(name)[migrations_of(name) :]
    assert (old.code, old.json()["pending"]) == (1, missing), "looking changes nothing"
    assert (ran.code, ran.json()["ran"]) == (0, missing), ran.stderr
    assert (new.code, new.json()["flaws"], new.json()["compared"]) == (0, [], len(ENDS)), new.stdout
    plain = [(*about, json.loads(payload)) for *about, payload in before]
    for then, now in zip(plain, asyncio.run(_read(db)), strict=True):
        assert then[:4] == now[:4]
        assert then[4].items() <= now[4].items(), "nothing that was written reads otherwise"


@asynccontextmanager
async def _served(db: str, clock: ManualClock) -> AsyncIterator[tuple[Store, Any]]:
    """The store with a server and a worker of today, and what to call for a moment to pass."""
    store, _ = await open_store(db)
    wakeups = MemoryWakeups()
    control = assemble(store, MemoryResults(), wakeups, clock, sharing=SharedExecutions())
    timer_queue, sweeps = control.background_jobs.timer_queue, control.background_jobs.lost_work
    handle = WorkerHandle("today:1:1", wakeups.notify_workers, HeldLeases(clock))
    worker = Worker(control.for_workers, wakeups, Registry(), handle, clock=clock)
    serving = asyncio.create_task(worker.serve())

    async def moment() -> None:
        """Time stands still while the worker is at a task: how long that takes is the machine's matter."""
        if not await store.held_by("today:1:1"):
            clock.advance(1)
        await sweeps.sweep()
        await timer_queue.wake_due()
        await asyncio.sleep(0.01)

    try:
        yield store, moment
    finally:
        serving.cancel()
        await asyncio.wait({serving})
        await store.close()


@EVERY
@pytest.mark.req("SRV-12", "TMR-06", "WRK-04")
async def test_executions_left_open_by_an_earlier_version_reach_their_expected_end(name: str, tmp_path: Path) -> None:
    db, _ = await asyncio.to_thread(_left, name, tmp_path)
    async with _served(db, ManualClock(AT + 2 * DAY_S)) as (store, moment), asyncio.timeout(60):
        over = await store.events("over")
        while any(row.finished_at is None for row in await store.executions()):
            await moment()

        for execution_id, ctx in ENDS.items():
            log = await store.events(execution_id)
            ended = replay(execution_id, log[0].trace_id, log)
            assert (ended.lifecycle.status, ended.lifecycle.error, ended.variables.ctx) == ("completed", None, ctx)
            no_gaps(log)
            one_end_each(log)
            fenced_changes_nothing(log)
            assert lost_leases(log).total() == (1 if execution_id == "held" else 0)
        assert await store.events("over") == over, "what was over is left alone"
        found = await inspected(cast("SqlStore", store), sample=10)
        assert (found.flaws, found.compared) == ([], len(ENDS))
