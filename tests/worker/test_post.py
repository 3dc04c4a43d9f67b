"""What a worker has said reaches its office, even when the worker ends meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from noetl.records.orders import Answer, Report, Turn
from noetl.worker.office import Office
from noetl.worker.post import Post


class Closed:
    """An office that answers when the test opens it."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.open = asyncio.Event()

    async def turn(self, turn: Turn) -> Answer:
        await self.open.wait()
        self.turns.append(turn)
        return Answer(verdicts=())


def end() -> Report:
    return Report(order_id="o1", execution_id="x1", lease_epoch=1, worker_id="w", entries=())


async def test_what_was_said_before_a_slot_was_cancelled_arrives_and_takes_no_further_order() -> None:
    """An interrupted run records what its tasks gave; what it cannot run any more it leaves for others."""
    office = Closed()
    post = Post(cast("Office", cast("Any", office)), "w")
    slots = [asyncio.ensure_future(post.claim(end())) for _ in range(2)]
    await asyncio.sleep(0)
    for slot in slots:
        slot.cancel()
    await asyncio.wait(slots)

    office.open.set()
    await post.settled()

    assert [len(turn.reports) for turn in office.turns] == [2]
    await post.settled()


async def test_a_cancelled_slot_claims_nothing() -> None:
    office = Closed()
    post = Post(cast("Office", cast("Any", office)), "w")
    first = asyncio.ensure_future(post.claim(None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    late = asyncio.ensure_future(post.claim(end()))
    await asyncio.sleep(0)
    late.cancel()
    await asyncio.wait({late})

    office.open.set()
    await post.settled()

    assert first.result() is None
    assert [(turn.capacity, len(turn.reports)) for turn in office.turns] == [(1, 0), (0, 1)]
