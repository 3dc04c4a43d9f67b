"""F-R-LOOP: cities and hotels at the same time, pages of one hotel in order, all rooms in one list (LOOP-06)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.events.envelope import Event
from noetl.events.loops import IterationStarted
from noetl.events.tasks import TaskProcessed
from noetl.operations.embedded import run_net
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.registry import Registry
from tests.engine_script import net_of
from tests.narrowing import payloads

FIXTURE = Path(__file__).parents[1] / "fixtures" / "F-R-LOOP.yaml"
PAGES = {"h1": 2, "h2": 1, "h3": 3, "h4": 1, "h5": 2}


class Hotels:
    """Answers as the hotels' pages would, each after a while of its own."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.asked: list[tuple[str, int]] = []

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        hotel, page = str(inputs["url"]).rpartition("/")[2], int(inputs["params"]["page"])
        self.asked.append((hotel, page))
        for _ in range(self._random.randrange(12)):
            await asyncio.sleep(0)
        rooms = [f"{hotel}-{page}-{number}" for number in (1, 2)]
        return ToolResult(result={"data": {"rooms": rooms, "more": page < PAGES[hotel]}}, wrapped=True)

    async def close(self) -> None: ...

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


@pytest.mark.req("LOOP-06", "LOOP-11", "LOOP-14", "WRK-02")
@pytest.mark.parametrize("seed", range(5))
async def test_all_rooms_arrive_in_city_hotel_page_order_with_any_timing(seed: int) -> None:
    events: list[Event] = []
    hotels = Hotels(seed)

    result = await run_net(
        net_of(FIXTURE.read_text()),
        payload={},
        db=":memory:",
        watch=events.extend,
        tools=Registry({"http": hotels}),
        clock=ManualClock(),
    )

    assert result.status == "completed"
    assert result.ctx["rooms"] == [
        f"{hotel}-{page}-{number}"
        for hotel, pages in PAGES.items()
        for page in range(1, pages + 1)
        for number in (1, 2)
    ]
    for hotel, pages in PAGES.items():
        assert [page for asked, page in hotels.asked if asked == hotel] == list(range(1, pages + 1))
    paths = {one.path for one in payloads(events, TaskProcessed) if one.path}
    assert sorted(paths) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    leases = [one.path for one in payloads(events, IterationStarted)]
    assert len(leases) == len(set(leases))
