"""The loop of the simulation: time that nobody waits for, and processes that stop at any await."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.loop import Node, SimulatedLoop, StuckError


def test_an_hour_passes_at_once_when_all_tasks_are_idle() -> None:
    loop = SimulatedLoop()
    loop.run_until_complete(asyncio.sleep(3600))

    assert loop.time() == pytest.approx(3600)
    loop.end()


def test_a_frozen_node_continues_where_it_stopped_and_a_dead_one_does_not() -> None:
    loop, frozen, dead, seen = SimulatedLoop(), Node("frozen"), Node("dead"), list[tuple[str, float]]()

    async def count(name: str) -> None:
        try:
            for _ in range(3):
                await asyncio.sleep(1.0)
                seen.append((name, round(loop.time(), 3)))
        finally:
            seen.append((f"{name} cleans up", loop.time())) if name == "dead" else None

    async def lived() -> None:
        for node in (frozen, dead):
            loop.create_task(count(node.name), context=node.context.copy())
        await asyncio.sleep(1.5)
        loop.freeze(frozen, 60.0)
        dead.is_dead = True
        await asyncio.sleep(100.0)

    loop.run_until_complete(lived())
    happened = list(seen)
    loop.end()

    assert happened == [("frozen", 1.0), ("dead", 1.0), ("frozen", 61.5), ("frozen", 62.5)]


def test_waiting_for_an_impossible_event_raises_stuck_error() -> None:
    loop = SimulatedLoop()
    with pytest.raises(StuckError):
        loop.run_until_complete(asyncio.Event().wait())
    loop.end()
