"""Whoever looks after a store is killed in the middle of it: the store is as it was or as it should be, never between,
and who comes next completes it (reliability.md §4.2)."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from noetl.base.clock import ManualClock, SystemClock
from noetl.base.crash_points import STORE_POINTS, VARIABLE
from noetl.control.assembly import assemble
from noetl.control.background.retention import BATCH
from noetl.control.commit.sharing import SharedExecutions
from noetl.events.orders import Order, Report, Timed, Turn
from noetl.events.outcomes import TaskResult
from noetl.events.steps import StepDone
from noetl.store.open_store import open_store
from noetl.store.results.files import FileResults
from noetl.store.wakeups import MemoryWakeups
from tests.contracts.stores import fresh_url
from tests.engine_script import net_of
from tests.faults.processes import Ended, noetl

STORES = ("sqlite", "postgres")
WORK = "workflow:\n  - {step: start, tool: {kind: python, code: x}}"
OVER, OPEN = BATCH + 10, 3
LARGE = "x" * 100_000


def _db(kind: str) -> str:
    return "s.db" if kind == "sqlite" else fresh_url()


def _looked_after(folder: Path, db: str, *command: str, crash_at: str | None = None) -> Ended:
    environment = {"NOETL_RESULTS": "results", **({VARIABLE: crash_at} if crash_at else {})}
    return noetl("db", *command, "--db", db, cwd=folder, environment=environment)


def _killed(folder: Path, db: str, *command: str, crash_at: str) -> None:
    done = _looked_after(folder, db, *command, crash_at=crash_at)
    assert done.code == -signal.SIGKILL, f"nobody came by {crash_at}: {done.stdout}{done.stderr}"


def _is_whole(folder: Path, db: str) -> None:
    checked = _looked_after(folder, db, "check")
    assert checked.code == 0, checked.stdout + checked.stderr


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.req("SRV-12")
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("migration", [1, 4])
def test_the_next_process_completes_a_killed_migration(at_home: Path, store: str, migration: int) -> None:
    db = _db(store)
    _killed(at_home, db, "migrate", crash_at=f"migration.within:{migration}")

    completed = _looked_after(at_home, db, "migrate")

    assert completed.code == 0, completed.stderr
    assert completed.stdout.startswith("ran 0001"), "nothing of it was kept: it is one transaction"
    _is_whole(at_home, db)


async def _filled(db: str) -> None:
    """Executions that ended long ago, each with a stored result of its own; some that are open, with theirs."""
    store, _ = await open_store(db, results="results")
    clock = ManualClock(1_000_000.0)
    control = assemble(store, FileResults(Path("results")), MemoryWakeups(), clock, sharing=SharedExecutions())
    net = net_of(WORK)
    for number in range(OVER + OPEN):
        name = f"over{number}" if number < OVER else f"open{number - OVER}"
        await control.executions.start(net, execution_id=name, trace_id=name, payload={"large": f"{name}{LARGE}"})
    orders: tuple[Order, ...] = ()
    while orders := (await control.for_workers.turn(Turn(worker_id="w", capacity=500, reports=_ends(orders)))).orders:
        pass
    await control.close()
    await store.close()
    for path in Path("results").rglob("*.json"):
        os.utime(path, (1_000_000, 1_000_000))


def _ends(orders: tuple[Order, ...]) -> tuple[Report, ...]:
    return tuple(
        Report(
            order_id=order.order_id,
            execution_id=order.execution_id,
            lease_epoch=order.lease_epoch,
            worker_id="w",
            entries=(Timed(1_000_000.0, StepDone(result=TaskResult())),),
        )
        for order in orders
        if order.execution_id.startswith("over")
    )


async def _left(db: str) -> list[str]:
    store, _ = await open_store(db, results="results")
    rows = await store.executions(limit=1_000)
    await store.close()
    return sorted(row.execution_id for row in rows)


@pytest.mark.req("EVT-01", "RES-01")
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("point", ["retention.within:2", "retention.between", "retention.collecting:3"])
def test_a_killed_retention_leaves_whole_executions_and_the_next_one_completes_it(
    at_home: Path, store: str, point: str
) -> None:
    db = _db(store)
    asyncio.run(_filled(db))
    results = Path("results")
    before = len(list(results.rglob("*.json")))
    assert before == OVER + OPEN

    _killed(at_home, db, "retention", "--run", "--days", "1", crash_at=point)
    left = asyncio.run(_left(db))
    assert [one for one in left if one.startswith("open")] == ["open0", "open1", "open2"]
    assert len(left) - OPEN == (0 if "collecting" in point else 10), "batch by batch, each whole"
    _is_whole(at_home, db)

    completed = _looked_after(at_home, db, "retention", "--run", "--days", "1")
    assert completed.code == 0, completed.stderr
    assert asyncio.run(_left(db)) == ["open0", "open1", "open2"]
    assert [len(one.suffixes) for one in results.rglob("*") if one.is_file()] == [1] * OPEN, "nothing else is left"
    _is_whole(at_home, db)


@pytest.mark.req("EVT-01")
@pytest.mark.parametrize("store", STORES)
def test_a_killed_rebuild_has_changed_nothing(at_home: Path, store: str) -> None:
    db = _db(store)
    asyncio.run(_filled(db))
    before = asyncio.run(_left(db))

    _killed(at_home, db, "rebuild", crash_at="rebuild.within")

    assert asyncio.run(_left(db)) == before
    _is_whole(at_home, db)
    assert _looked_after(at_home, db, "rebuild").code == 0
    assert asyncio.run(_left(db)) == before


@pytest.mark.req("RES-01")
@pytest.mark.parametrize("aside", ["", ".json"], ids=["by a program before tables", "by this one"])
def test_a_result_stored_while_its_collector_died_still_exists(tmp_path: Path, aside: str) -> None:
    """It was touched in time, moved aside, and never moved back."""
    results = FileResults(tmp_path)
    reference = results.put({"text": LARGE})
    path = tmp_path / reference.key
    path.rename(path.with_suffix(f"{aside}.123.gone"))

    assert results.load(reference) == {"text": LARGE}
    path.rename(path.with_suffix(f"{aside}.124.gone"))
    assert results.untouched(before=time.time() - 60) == []
    assert path.exists(), "whoever collects next has put it back"
    (path.with_suffix(".125.part")).write_bytes(b"half")
    results.untouched(before=SystemClock().now() + 60)
    assert [one.name for one in path.parent.iterdir()] == [path.name], "half a file is nobody's"


def test_every_crash_point_of_a_store_is_tested() -> None:
    packing = Path(__file__).parents[1] / "upgrade" / "test_packing.py"
    text = Path(__file__).read_text() + packing.read_text()
    assert [point for point in STORE_POINTS if f'"{point}' not in text.replace('f"', '"')] == []
