"""Reports of a worker reach its control plane, even if the worker ends meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from noetl.events.orders import Report, Turn, TurnAnswer
from noetl.worker.control_plane import ControlPlane
from noetl.worker.reports import ReportQueue
from noetl.worker.slots import WorkerHandle


class Closed:
    """An office that answers when the test opens it."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.open = asyncio.Event()

    async def turn(self, turn: Turn) -> TurnAnswer:
        await self.open.wait()
        self.turns.append(turn)
        return TurnAnswer(verdicts=())


def end() -> Report:
    return Report(order_id="o1", execution_id="x1", lease_epoch=1, worker_id="w", entries=())


async def test_reports_before_the_cancellation_of_a_slot_are_delivered() -> None:
    """An interrupted run records what its tasks gave; what it cannot run any more it leaves for others."""
    control_plane = Closed()
    post = ReportQueue(cast("ControlPlane", cast("Any", control_plane)), WorkerHandle("w", lambda _: None))
    slots = [asyncio.ensure_future(post.claim(end())) for _ in range(2)]
    await asyncio.sleep(0)
    for slot in slots:
        slot.cancel()
    await asyncio.wait(slots)

    control_plane.open.set()
    await post.settled()

    assert [len(turn.reports) for turn in control_plane.turns] == [2]
    await post.settled()


async def test_a_cancelled_slot_claims_nothing() -> None:
    control_plane = Closed()
    post = ReportQueue(cast("ControlPlane", cast("Any", control_plane)), WorkerHandle("w", lambda _: None))
    first = asyncio.ensure_future(post.claim(None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    late = asyncio.ensure_future(post.claim(end()))
    await asyncio.sleep(0)
    late.cancel()
    await asyncio.wait({late})

    control_plane.open.set()
    await post.settled()

    assert first.result() is None
    assert [(turn.capacity, len(turn.reports)) for turn in control_plane.turns] == [(1, 0), (0, 1)]


async def test_one_task_sends_all_turns_and_none_is_lost() -> None:
    """A task for each turn would be one for each step of a chain."""
    control_plane = Closed()
    control_plane.open.set()
    post = ReportQueue(cast("ControlPlane", cast("Any", control_plane)), WorkerHandle("w", lambda _: None))
    carriers: set[asyncio.Task[Any]] = set()

    for _ in range(3):
        await post.claim(None)
        carriers |= asyncio.all_tasks() - {asyncio.current_task()}
    await post.settled()

    assert len(control_plane.turns) == 3
    assert len(carriers) == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}
