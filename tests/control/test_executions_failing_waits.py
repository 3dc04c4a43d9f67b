"""A step that fails in its waits, on every store: its pipeline was done, and the step fails all the same."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from noetl.base.errors import InvalidError
from tests.contracts.stores import BACKENDS, opened
from tests.control.control_plane import ControlPlane as Desk
from tests.control.waiting import ControlPlane

WAYS = {
    "message": "message: {name: m, timeout: 60, spec: {timeout_action: fail}}",
    "timeout": "message: {name: m}, timeout: {duration: 60}",
    "lifetime": "signal: {name: s}, spec: {policy: {lifecycle: {timeout_s: 60}}}",
    "person": "human_task: {title: t, assignee: {user: u}}, timeout: {duration: 60}",
    "unfit": "timer: {duration: '{{ [] }}'}",
}
ENDED = ["step.done", "step.failed", "step.done"]
ROUTED = """
workflow:
  - {step: start, WORK%s, next: {arcs: [{step: late, when: "{{ event.name == 'step.failed' }}"}]}}
  - {step: late, tool: {kind: noop}}
"""


@pytest.mark.req("TMR-03", "TMR-05", "MSG-04", "WRK-07")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_step_whose_wait_fails_takes_its_arc_on_every_store(backend: str, way: str, tmp_path: Path) -> None:
    async with opened(backend, tmp_path) as store:
        control_plane = ControlPlane(store, shared=True)
        await control_plane.start((ROUTED % WAYS[way]).replace("WORK", ""))
        control_plane.clock.advance(61)
        await control_plane.timer_queue.wake_due()

        assert await control_plane.status() == "completed"
        assert [one for one in await control_plane.types() if one in ENDED] == ENDED


@pytest.mark.req("TMR-02", "TPL-09")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_wait_that_cannot_start_after_its_tool_fails_the_step(backend: str, tmp_path: Path) -> None:
    """The order was closed by the report that brought the step to its waits; it is not closed a second time."""
    async with opened(backend, tmp_path) as store:
        desk = Desk(store, shared=True)
        await desk.start((ROUTED % WAYS["unfit"]).replace("WORK", "tool: {kind: python, code: x}, "))
        [order] = (await desk.turn()).orders
        await desk.turn(desk.done(order), capacity=0)

        row = await store.execution(order.execution_id)
        assert row is not None
        assert row.status == "completed"


NOISE = Random(1).randbytes(2_000).hex()  # no index of PostgreSQL holds so much, and no compression helps
LONG = {
    "message": "message: {name: %s}",
    "correlation": "message: {name: m, correlation: {k: %s}}",
    "signal": "signal: {name: %s}",
    "role": "human_task: {title: t, assignee: {role: %s}}",
    "user": "human_task: {title: t, assignee: {user: %s}}",
}


@pytest.mark.req("MSG-01", "MSG-05", "HUM-01", "TPL-09")
@pytest.mark.parametrize("what", LONG)
async def test_a_correlation_too_long_to_be_indexed_fails_the_step(what: str, tmp_path: Path) -> None:
    """A store that failed on it would be asked forever."""
    async with opened("postgres", tmp_path) as store:
        control_plane = ControlPlane(store, shared=True)
        await control_plane.start((ROUTED % (LONG[what] % NOISE)).replace("WORK", ""))

        assert await control_plane.status() == "completed"
        assert [one for one in await control_plane.types() if one in ENDED] == ENDED


@pytest.mark.req("MSG-02")
async def test_a_message_id_has_a_length_that_every_store_accepts(tmp_path: Path) -> None:
    async with opened("postgres", tmp_path) as store:
        control_plane = ControlPlane(store, shared=True)

        with pytest.raises(InvalidError, match="1 to 200 characters"):
            await control_plane.deliveries.send_message("m", {}, None, message_id=NOISE)
