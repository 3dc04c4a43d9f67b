"""The 43 control-flow patterns: their playbooks, what each of them does, and how one is run here."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from noetl.events.envelope import Event
from noetl.operations.embedded import Driver, RunResult, driving
from tests import quick_yaml
from tests.fixtures.virtual_time import LoopClock, run_virtually

FOLDER = Path(__file__).parents[2] / "examples" / "patterns"
BROKEN = Path(__file__).parent / "broken"
TRACES: dict[str, dict[str, Any]] = quick_yaml.loaded((FOLDER / "traces.yaml").read_text("utf-8"))


def run(name: str, db: str, *, slots: int = 1) -> tuple[RunResult, list[Event]]:
    """One pattern to its end in a file, with its external messages; and all of its events."""
    return run_virtually(_run(name, db, slots, is_virtual=True))


def run_really(name: str, url: str) -> tuple[RunResult, list[Event]]:
    """The same on a database that is another process, which virtual time would leave behind."""
    return asyncio.run(_run(name, url, 1, is_virtual=False))


async def _run(name: str, db: str, slots: int, *, is_virtual: bool) -> tuple[RunResult, list[Event]]:
    seen: list[Event] = []
    clock = LoopClock() if is_virtual else None
    async with driving(db, clock=clock, watch=seen.extend, slots=slots) as driver:
        sends = TRACES[name].get("send", [])
        for one in sends:
            if one.get("early"):
                await _send(driver, one)
        execution_id = await driver.start(FOLDER / f"{name}.yaml")
        for one in sends:
            if not one.get("early"):
                await _awaited(one, seen)
                await _send(driver, one)
        result = await driver.result(execution_id)
        await driver.drained()
    return result, [event for event in seen if event.execution_id == execution_id]


async def _awaited(what: dict[str, Any], seen: list[Event]) -> None:
    """Wait until an execution waits for it: a signal is not stored for later listeners."""
    kind = "message" if "message" in what else "signal"
    while not any(event.event_type == f"{kind}.awaited" for event in seen):
        await asyncio.sleep(0.01)


async def _send(driver: Driver, what: dict[str, Any]) -> None:
    if "message" in what:
        await driver.deliveries.send_message(what["message"], what.get("correlation", {}))
    else:
        await driver.deliveries.send_signal(what["signal"])


def steps_of(events: list[Event]) -> list[str]:
    """The steps whose runs ended, in that order. A token that only met others ran nothing."""
    begun = {event.step_run_id for event in events if event.event_type == "step.started"}
    ends = (event for event in events if event.event_type == "token.consumed" and event.step_run_id in begun)
    return [event.step or "" for event in ends]
