"""How much a server keeps of executions in memory: bounded by bytes, and ended executions are evicted first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.control.commit import memory_use, sharing
from noetl.control.commit.memory_use import Bounds, MemoryUse
from noetl.events.events import Payload
from noetl.store import row_codecs
from noetl.store.sqlite.store import SqliteStore
from tests.control.control_plane import CHAIN, ControlPlane
from tests.engine_script import net_of

SMALL = Bounds(most=10, most_bytes=1_000_000, most_over=3, most_over_bytes=100_000, least=2)


def nobody_waits(execution_id: str) -> bool:
    return False


def test_finished_executions_are_evicted_before_open_ones() -> None:
    kept = MemoryUse(SMALL)
    for number in range(8):
        kept.add(f"open{number}", 10, is_over=False)
    for number in range(3):
        kept.add(f"over{number}", 10, is_over=True)

    assert kept.evictions(nobody_waits) == ["over0"], "eleven are one too many"


def test_finished_executions_have_their_own_memory_bounds() -> None:
    kept = MemoryUse(SMALL)
    for number in range(5):
        kept.add(f"over{number}", 10, is_over=True)
    assert kept.evictions(nobody_waits) == ["over0", "over1"]
    kept.add("large", 85_000, is_over=True)

    assert kept.evictions(lambda one: one == "over0") == ["over1", "over2", "over3"], "by number, and then by size"


def test_a_few_large_finished_executions_are_evicted_by_size() -> None:
    kept = MemoryUse(SMALL)
    kept.add("large", 120_000, is_over=True)
    kept.add("small", 10, is_over=True)

    assert kept.evictions(nobody_waits) == ["large"]


def test_the_least_recently_used_are_evicted_by_size_and_a_few_always_stay() -> None:
    kept = MemoryUse(SMALL)
    for number in range(4):
        kept.add(f"x{number}", 400_000, is_over=False)
    kept.use("x0")
    assert kept.evictions(nobody_waits) == ["x1", "x2"]
    kept.add("x0", 5_000_000, is_over=False)

    assert len(kept.evictions(nobody_waits)) == 2
    assert kept.bytes > SMALL.most_bytes
    for one in ("x0", "x1", "x2", "x3"):
        kept.drop(one)
    assert (kept.bytes, kept.over_bytes) == (0, 0)


@pytest.mark.req("SRV-05")
async def test_a_server_keeps_little_memory_of_finished_executions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing.SharedExecutions, "memory_bounds", Bounds(most_over=5))
    control_plane = ControlPlane(shared=True)
    net = net_of(CHAIN)
    for number in range(30):
        await control_plane.executions.start(
            net, execution_id=f"x{number}", trace_id="t", payload={"text": "y" * 1_000}
        )
        while orders := (await control_plane.turn()).orders:
            for order in orders:
                await control_plane.turn(control_plane.done(order), capacity=0)
        await asyncio.sleep(0)
    hot = control_plane.executions._loaded

    assert len(hot) <= 5
    again = await control_plane.executions.execution("x0")
    assert again.execution.lifecycle.status == "completed", "the log has it"
    assert hot._memory_use is not None
    assert hot._memory_use.bytes == sum(hot._memory_use._weights.values())


async def test_a_payload_is_encoded_once_for_all_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is decided: who weighs it in memory and who writes it to the store take that text."""

    def refuse(payload: Payload) -> bytes:
        raise AssertionError(f"{payload.event_type} is encoded again")

    store = SqliteStore.open(tmp_path / "s.db")
    control_plane = ControlPlane(store, shared=True)
    monkeypatch.setattr(row_codecs, "encode_payload", refuse)
    monkeypatch.setattr(memory_use, "encode_payload", refuse)
    try:
        await control_plane.start()
        order = await control_plane.claim()
        await control_plane.turn(control_plane.done(order, {"n": 1}), capacity=0)

        assert await store.events("x1") == control_plane.heard
    finally:
        await store.close()
