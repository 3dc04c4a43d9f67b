"""Two servers decide on one execution: the second one goes back to its snapshot and reads only what the first one
added, whatever the length of the history (design.md §3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError
from noetl.control.commit.snapshots import KEPT, Snapshot, mutable_copy
from noetl.engine.evolve import evolve, replay
from noetl.engine.execution import Execution
from noetl.events.envelope import Event
from noetl.events.loops import IterationDone, IterationStarted
from noetl.events.orders import Order, Report, ReportResult
from noetl.events.outcomes import TaskResult
from noetl.store.contract import Commit, EventFilter
from noetl.store.memory import MemoryStore
from tests.control.control_plane import ControlPlane
from tests.engine_script import Conversation
from tests.narrowing import present
from tests.properties.random_playbooks import act, as_yaml, open_runs, playbooks

LONG = """
workflow:
  - step: start
    loop: {in: "{{ range(400) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 8}}
    tool: {kind: python, code: x}
"""


class Reading(MemoryStore):
    """Counts the events that are read, and may fail once it has stored something."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []
        self.lost_answers = 0

    async def events(self, execution_id: str, *, after: int = 0, only: EventFilter | None = None) -> list[Event]:
        found = await super().events(execution_id, after=after, only=only)
        self.read.append(len(found))
        return found

    async def commit(self, commits: Sequence[Commit]) -> None:
        await super().commit(commits)
        if self.lost_answers:
            self.lost_answers -= 1
            raise BackendError("the answer was lost")


def iterations(control_plane: ControlPlane, order: Order, first: int, last: int) -> Report:
    entries: list[Any] = []
    for index in range(first, last + 1):
        entries.append(IterationStarted(path=(index,), index=index))
        entries.append(IterationDone(path=(index,), index=index, result=TaskResult(result=index)))
    return control_plane.report(order, *entries)


async def long_ago(first: ControlPlane, second: ControlPlane) -> list[Order]:
    """A loop with a long history, and two orders of it that are being run; both servers know of all of it."""
    await first.start(LONG)
    orders: list[Order] = []
    while present(await first.store.execution("x1")).last_seq < 500:
        orders += (await first.turn(capacity=8)).orders
        order = orders.pop(0)
        assert order.iterations is not None
        await first.turn(iterations(first, order, order.iterations.first, order.iterations.last), capacity=0)
    orders += (await first.turn(capacity=8)).orders
    assert len(orders) >= 2
    await second.executions.execution("x1")
    return orders


async def as_the_log_tells(control_plane: ControlPlane) -> bool:
    control_plane.clock.advance(2)  # until then it trusts that nobody else has moved it
    live = (await control_plane.executions.execution("x1")).execution
    told: Execution = replay("x1", "t1", await MemoryStore.events(control_plane.store, "x1"))
    return live == told


@pytest.mark.req("SRV-12", "EVT-07")
@pytest.mark.parametrize("knows", ["it began it", "it read it from the log"])
async def test_the_loser_of_a_race_reads_only_the_tail_of_the_log(knows: str) -> None:
    store, clock = Reading(), ManualClock()
    first, second = ControlPlane(store, shared=True, clock=clock), ControlPlane(store, shared=True, clock=clock)
    one, other, *_ = await long_ago(first, second)
    loser, winner = (first, second) if knows == "it began it" else (second, first)
    assert one.iterations is not None
    assert other.iterations is not None
    await winner.turn(iterations(winner, one, one.iterations.first, one.iterations.first), capacity=0)
    length = present(await store.execution("x1")).last_seq
    store.read.clear()

    answer = await loser.turn(iterations(loser, other, other.iterations.first, other.iterations.first), capacity=0)

    assert answer.verdicts == (ReportResult.ACCEPTED,)
    assert store.read, "it had lost, and has looked"
    assert sum(store.read) <= 2 < length, "what the winner has added"
    assert await as_the_log_tells(loser)
    assert await as_the_log_tells(winner)


@pytest.mark.req("SRV-12")
async def test_two_servers_that_race_constantly_reach_the_same_state() -> None:
    store, clock = Reading(), ManualClock()
    servers = [ControlPlane(store, shared=True, clock=clock), ControlPlane(store, shared=True, clock=clock)]
    orders = await long_ago(*servers)
    store.read.clear()
    races = 0
    while orders:
        racing, orders = orders[:2], orders[2:]
        reports = [
            (control_plane, iterations(control_plane, order, order.iterations.first, order.iterations.last))
            for control_plane, order in zip(servers, racing, strict=False)
            if order.iterations is not None
        ]
        answers = await asyncio.gather(*(control_plane.turn(report, capacity=0) for control_plane, report in reports))
        assert all(answer.verdicts == (ReportResult.ACCEPTED,) for answer in answers)
        orders += (await servers[races % 2].turn(capacity=8)).orders
        races += 1

    row = present(await store.execution("x1"))
    assert row.status == "completed"
    assert max(store.read, default=0) < 100, "never the history"
    assert all([await as_the_log_tells(control_plane) for control_plane in servers])


async def test_a_stored_commit_without_acknowledgement_is_found_in_the_tail() -> None:
    store = Reading()
    first, second = ControlPlane(store, shared=True), ControlPlane(store, shared=True)
    order, *_ = await long_ago(first, second)
    assert order.iterations is not None
    report = iterations(first, order, order.iterations.first, order.iterations.first)
    store.lost_answers = 1
    store.read.clear()

    with pytest.raises(BackendError, match="lost"):
        await first.turn(report, capacity=0)

    assert (await first.turn(report, capacity=0)).verdicts == (ReportResult.DUPLICATE,)
    assert sum(store.read) < 10
    assert await as_the_log_tells(first)


@pytest.mark.req("EVT-07")
@settings(max_examples=40, deadline=None)
@given(text=playbooks(), choose=st.data())
def test_a_snapshot_equals_the_log_at_every_position_and_its_copies_are_independent(
    text: str, choose: st.DataObject
) -> None:
    talk = Conversation(as_yaml(text))
    talk.start()
    for _ in range(60):
        if not open_runs(talk):
            break
        act(talk, choose)
    base = Snapshot(Execution(execution_id="x1", trace_id="t1"))
    for length, event in enumerate(talk.log, 1):
        base.add([event])
        ahead = base.execution()
        for coming in talk.log[length:]:
            evolve(ahead, coming)
        assert ahead == talk.execution
        assert base.execution() == replay("x1", "t1", talk.log[:length])


def test_a_snapshot_lags_behind_by_a_bounded_number_of_events() -> None:
    talk = Conversation(LONG)
    talk.start()
    base = Snapshot(Execution(execution_id="x1", trace_id="t1"))
    for event in talk.log:
        base.add([event])

    assert len(base._since) <= KEPT
    assert mutable_copy(talk.execution) == talk.execution == base.execution()


def test_a_copy_shares_no_container_with_the_original_execution() -> None:
    """What one of them adds, a refused report say, must not show in the other: the log may never have it."""
    execution = Execution(execution_id="x", trace_id="t")

    copy = mutable_copy(execution)

    before, after = dict(_containers(execution)), dict(_containers(copy))
    changed_in_place = {"order_states", "order_states.refused", "open_waits.due_times", "held.forks", "variables.ctx"}
    assert changed_in_place <= before.keys()
    assert [name for name in before if after[name] is before[name]] == []
    assert copy == execution


def _containers(state: msgspec.Struct, above: str = "") -> Iterator[tuple[str, object]]:
    """Everything in it that can change, by its path."""
    for name in state.__struct_fields__:
        value = getattr(state, name)
        if isinstance(value, (dict, list, set, bytearray, msgspec.Struct)):
            yield above + name, value
        if isinstance(value, msgspec.Struct):
            yield from _containers(value, f"{above}{name}.")
