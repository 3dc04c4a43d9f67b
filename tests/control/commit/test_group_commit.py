"""Group commit: callers during a commit share the next one, and no decision builds on anything that is not stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from noetl.base.errors import BackendError, RefusedError
from noetl.control.commit import group_commit
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.group_commit import DecideAgainError
from noetl.engine.commands import PauseExecution
from noetl.events.control import PlaybookPaused
from noetl.events.orders import ReportResult
from noetl.store.contract import Commit, ConflictError, TakenError
from tests.control.control_plane import CHAIN, FORK, ControlPlane, Counting
from tests.engine_script import net_of
from tests.narrowing import payloads


class Slow(Counting):
    """A store whose commits are under way until the test lets them through."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.under_way = 0

    async def commit(self, commits: Sequence[Commit]) -> None:
        self.under_way += 1
        await self.gate.wait()
        self.under_way -= 1
        await super().commit(commits)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def begun(number: int) -> tuple[ControlPlane, Slow]:
    store = Slow()
    control_plane = ControlPlane(store)
    for n in range(number):
        await control_plane.start(execution_id=f"x{n}")
    store.commits.clear()
    return control_plane, store


async def test_commands_that_arrive_during_a_commit_share_the_next_one() -> None:
    control_plane, store = await begun(10)
    store.gate.clear()
    pausing = [
        asyncio.create_task(control_plane.executions.control(f"x{n}", PauseExecution(at=1.0, reason=str(n))))
        for n in range(10)
    ]
    await settle()
    assert store.under_way == 1, "one commit at a time"
    store.gate.set()

    assert await asyncio.gather(*pausing) == [ReportResult.ACCEPTED] * 10
    assert [len(commits) for commits in store.commits] == [1, 9]


async def test_a_single_caller_commits_without_another_task() -> None:
    """Without another task, and without giving way to anybody: a commit that does not wait is done at once."""
    control_plane = ControlPlane()
    await control_plane.start()
    turned: list[str] = []
    asyncio.get_running_loop().call_soon(turned.append, "somebody else had a turn")

    await control_plane.executions.control("x1", PauseExecution(at=1.0))

    assert turned == []


async def test_several_decisions_of_a_batch_on_one_execution_are_stored_together() -> None:
    control_plane, store = await begun(2)
    orders = (await control_plane.turn(capacity=2)).orders
    store.gate.clear()
    first = asyncio.create_task(control_plane.executions.control("x0", PauseExecution(at=1.0)))
    await settle()
    reports = [asyncio.create_task(control_plane.turn(control_plane.done(order), capacity=0)) for order in orders]
    resumed = asyncio.create_task(control_plane.executions.control("x1", PauseExecution(at=2.0)))
    await settle()
    store.gate.set()
    await asyncio.gather(first, *reports, resumed)

    for execution_id in ("x0", "x1"):
        events = await store.events(execution_id)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [event.event_type for event in events].count("step.done") == 1
    assert len(store.commits[-1]) == 2, "both executions in one transaction"


async def test_a_failed_shared_commit_fails_every_caller_and_changes_nothing() -> None:
    control_plane, store = await begun(3)
    store.gate.clear()
    first = asyncio.create_task(control_plane.executions.control("x0", PauseExecution(at=1.0)))
    await settle()
    others = [asyncio.create_task(control_plane.executions.control(f"x{n}", PauseExecution(at=1.0))) for n in (1, 2)]
    await settle()
    store.broken = [BackendError("disk full"), BackendError("disk full")]
    store.gate.set()

    outcomes = await asyncio.gather(first, *others, return_exceptions=True)

    assert [str(one) for one in outcomes] == ["disk full"] * 3
    assert len((await control_plane.turn(capacity=3)).orders) == 3, "no execution is paused: the log is read again"


async def test_a_decision_made_during_a_failed_commit_is_repeated_from_the_log() -> None:
    """The second pause must not find the execution paused by a decision that was never stored."""
    control_plane, store = await begun(1)
    store.gate.clear()
    first = asyncio.create_task(control_plane.executions.control("x0", PauseExecution(at=1.0)))
    await settle()
    second = asyncio.create_task(control_plane.executions.control("x0", PauseExecution(at=2.0)))
    await settle()
    store.broken = [BackendError("disk full")]
    store.gate.set()

    outcomes = await asyncio.gather(first, second, return_exceptions=True)

    assert [str(one) for one in outcomes] == ["disk full", "accepted"]
    paused = [event for event in await store.events("x0") if event.event_type == "playbook.paused"]
    assert [event.ts for event in paused] == [2.0]


async def test_a_commit_with_unknown_outcome_is_looked_up_in_the_log() -> None:
    class Cut(Slow):
        """Stores, and loses the connection before it says so."""

        async def commit(self, commits: Sequence[Commit]) -> None:
            await super().commit(commits)
            if self.cuts:
                self.cuts -= 1
                raise BackendError("the connection was cut")

        cuts = 0

    store = Cut()
    control_plane = ControlPlane(store)
    await control_plane.start()
    order = await control_plane.claim()
    store.cuts = 1
    with pytest.raises(BackendError):
        await control_plane.turn(control_plane.done(order))

    answer = await control_plane.turn(control_plane.done(order))

    assert answer.verdicts == (ReportResult.DUPLICATE,)
    events = await store.events("x1")
    assert [event.event_type for event in events].count("step.done") == 1


async def test_conflicts_of_one_execution_do_not_delay_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "_LONGEST_S", 0.001)

    class Contested(Slow):
        """Somebody else always moves x1 first."""

        async def commit(self, commits: Sequence[Commit]) -> None:
            if self.contested and any(commit.execution.execution_id == "x1" for commit in commits):
                raise ConflictError("moved")
            await super().commit(commits)

        contested = False

    store = Contested()
    control_plane = ControlPlane(store)
    for n in range(4):
        await control_plane.start(execution_id=f"x{n}")
    store.contested = True
    store.gate.clear()
    pausing = [
        asyncio.create_task(control_plane.executions.control(f"x{n}", PauseExecution(at=1.0))) for n in (0, 1, 2, 3)
    ]
    await settle()
    store.gate.set()

    outcomes = await asyncio.gather(*pausing, return_exceptions=True)

    assert [str(one) for one in outcomes] == ["accepted", "moved", "accepted", "accepted"]


@pytest.mark.parametrize("number", [1, 4])
async def test_an_execution_owned_by_another_process_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Trying again would bring the same, and whoever waits for it, a timetable say, would wait for nothing."""

    def postponed(*_: object) -> None:
        raise AssertionError("nobody waits for another try")

    class Late(Slow):
        """x0 is asked for what another has."""

        tries, is_late = 0, False

        async def commit(self, commits: Sequence[Commit]) -> None:
            if self.is_late and any(commit.execution.execution_id == "x0" for commit in commits):
                self.tries += 1
                raise TakenError("gone")
            await super().commit(commits)

    monkeypatch.setattr(group_commit.GroupCommit, "_postpone", postponed)
    store = Late()
    control_plane = ControlPlane(store, shared=True)
    for n in range(number):
        await control_plane.start(execution_id=f"x{n}")
    store.is_late = True
    pausing = [control_plane.executions.control(f"x{n}", PauseExecution(at=1.0)) for n in range(number)]

    outcomes = await asyncio.gather(*pausing, return_exceptions=True)

    assert [str(one) for one in outcomes] == ["gone", *["accepted"] * (number - 1)]
    assert store.tries == min(number, 2), "once with the others, once alone"


async def test_a_failing_decision_affects_only_later_ones_built_on_it_and_they_are_repeated() -> None:
    control_plane, store = await begun(3)
    executions = control_plane.executions
    store.gate.clear()
    first = asyncio.create_task(executions.control("x0", PauseExecution(at=1.0)))
    await settle()

    async def breaks(batch: CommitBatch) -> None:
        await control_plane.assembly.decisions.load("x1")
        control_plane.assembly.decisions.decide(batch, "x1", PauseExecution(at=2.0, reason="never happens"))
        raise ZeroDivisionError("a bug")

    before = asyncio.create_task(executions.control("x1", PauseExecution(at=1.0, reason="before")))
    broken = asyncio.create_task(control_plane.assembly.commit.run(breaks))
    beside = asyncio.create_task(executions.control("x2", PauseExecution(at=1.0, reason="beside")))
    await settle()
    store.gate.set()
    outcomes = await asyncio.gather(first, before, broken, beside, return_exceptions=True)

    assert [str(one) for one in outcomes] == ["accepted", "accepted", "a bug", "accepted"]
    reasons = [one.reason for n in (1, 2) for one in payloads(await store.events(f"x{n}"), PlaybookPaused)]
    assert reasons == ["before", "beside"]


async def test_a_refusal_does_not_affect_other_commands() -> None:
    control_plane, store = await begun(2)
    store.gate.clear()
    first = asyncio.create_task(control_plane.executions.control("x0", PauseExecution(at=1.0)))
    await settle()
    unknown = asyncio.create_task(control_plane.executions.control("nobody", PauseExecution(at=1.0)))
    second = asyncio.create_task(control_plane.executions.control("x1", PauseExecution(at=1.0)))
    await settle()
    store.gate.set()

    outcomes = await asyncio.gather(first, unknown, second, return_exceptions=True)

    assert outcomes[0] == outcomes[2] == ReportResult.ACCEPTED
    assert isinstance(outcomes[1], RefusedError)
    assert [len(commits) for commits in store.commits] == [1, 1]


async def test_a_cancelled_caller_does_not_cancel_the_others() -> None:
    control_plane, store = await begun(3)
    store.gate.clear()
    tasks = [asyncio.create_task(control_plane.executions.control(f"x{n}", PauseExecution(at=1.0))) for n in range(3)]
    await settle()
    tasks[1].cancel()
    store.gate.set()

    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert outcomes[0] == outcomes[2] == ReportResult.ACCEPTED
    assert isinstance(outcomes[1], asyncio.CancelledError)


async def test_the_first_caller_can_be_cancelled_during_its_commit() -> None:
    control_plane, store = await begun(2)
    store.gate.clear()
    tasks = [asyncio.create_task(control_plane.executions.control(f"x{n}", PauseExecution(at=1.0))) for n in range(2)]
    await settle()
    tasks[0].cancel()
    await settle()
    store.gate.set()

    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1] is ReportResult.ACCEPTED


async def test_a_conflict_that_persists_is_raised() -> None:
    control_plane = ControlPlane()

    async def never(batch: CommitBatch) -> None:
        raise DecideAgainError from ValueError("it is still there")

    with pytest.raises(ValueError, match="still there"):
        await control_plane.assembly.commit.run(never)


async def test_commands_that_arrive_together_on_a_server_share_a_commit() -> None:
    """Though the store does not let anybody in while it commits, as SQLite does not."""
    control_plane = ControlPlane(shared=True)
    net = net_of(CHAIN)
    for n in range(8):
        await control_plane.executions.start(net, execution_id=f"x{n}", trace_id="t", payload={})
    control_plane.store.commits.clear()

    await asyncio.gather(*(control_plane.executions.control(f"x{n}", PauseExecution(at=1.0)) for n in range(8)))

    assert [len(commits) for commits in control_plane.store.commits] == [8]


async def test_executions_requested_together_start_in_one_transaction() -> None:
    control_plane, net = ControlPlane(), net_of(CHAIN)

    starts = [
        asyncio.create_task(control_plane.executions.start(net, execution_id=f"x{n}", trace_id="t", payload={}))
        for n in (0, 1, 1, 2)
    ]
    outcomes = await asyncio.gather(*starts, return_exceptions=True)

    assert [str(one) for one in outcomes] == ["None", "None", "execution x1 exists already", "None"]
    assert [len(commits) for commits in control_plane.store.commits] == [3]


async def test_a_waiter_for_the_end_survives_a_second_start_of_the_execution() -> None:
    control_plane, net = ControlPlane(), net_of(CHAIN)
    await control_plane.start()
    waiting = asyncio.create_task(control_plane.executions.ended_execution("x1"))
    await settle()
    with pytest.raises(ConflictError, match="exists already"):
        await control_plane.executions.start(net, execution_id="x1", trace_id="t", payload={})
    await control_plane.executions.cancel("x1", "enough")

    async with asyncio.timeout(60):
        assert (await waiting).lifecycle.status == "cancelled"


async def test_a_cancelled_start_does_not_cancel_others_of_its_batch() -> None:
    control_plane, store = await begun(0)
    net = net_of(CHAIN)
    store.gate.clear()
    starts = [
        asyncio.create_task(control_plane.executions.start(net, execution_id=f"x{n}", trace_id="t", payload={}))
        for n in range(3)
    ]
    await settle()
    starts[0].cancel()
    await settle()
    store.gate.set()

    outcomes = await asyncio.gather(*starts, return_exceptions=True)

    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1:] == [None, None]
    assert {row.execution_id for row in await store.executions()} == {"x1", "x2"}


async def test_a_postponed_command_is_not_answered_before_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment may come while the round that it was put off from is still storing the others."""
    monkeypatch.setattr(group_commit, "_LONGEST_S", 0.0)

    class Contested(Counting):
        conflicts = 0

        async def commit(self, commits: Sequence[Commit]) -> None:
            await asyncio.sleep(0.002)
            if self.conflicts and any(commit.execution.execution_id == "x0" for commit in commits):
                self.conflicts -= 1
                raise ConflictError("moved")
            await super().commit(commits)

    store = Contested()
    control_plane = ControlPlane(store, shared=True)
    for n in range(4):
        await control_plane.start(execution_id=f"x{n}")
    store.conflicts = 4

    verdicts = await asyncio.gather(
        *(control_plane.executions.control(f"x{n}", PauseExecution(at=1.0)) for n in range(4))
    )

    assert verdicts == [ReportResult.ACCEPTED] * 4
    for n in range(4):
        kinds = [event.event_type for event in await control_plane.store.events(f"x{n}")]
        assert kinds.count("playbook.paused") == 1


async def test_reports_of_one_turn_are_stored_together_and_claim_what_they_make_ready() -> None:
    control_plane = ControlPlane(shared=True)
    for n in range(3):
        await control_plane.start(execution_id=f"x{n}")
    orders = (await control_plane.turn(capacity=3)).orders
    control_plane.store.commits.clear()

    answer = await control_plane.turn(*map(control_plane.done, orders), capacity=3)

    assert answer.verdicts == (ReportResult.ACCEPTED,) * 3
    assert [order.step for order in answer.orders] == ["b"] * 3
    assert [len(commits) for commits in control_plane.store.commits] == [3]


async def test_an_execution_with_many_reports_does_not_delay_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each commit takes its share of it and whatever the others have; what they reported is answered in order."""
    monkeypatch.setattr(group_commit, "MOST_EVENTS", 1)
    control_plane = ControlPlane(shared=True)
    await control_plane.start(FORK, execution_id="busy")
    for n in range(2):
        await control_plane.start(execution_id=f"x{n}")
    orders = (await control_plane.turn(capacity=5)).orders
    own = [order for order in orders if order.execution_id == "busy"]
    others = [order for order in orders if order.execution_id != "busy"]
    control_plane.store.commits.clear()

    answer, *quick = await asyncio.gather(
        control_plane.turn(*map(control_plane.done, own), capacity=0),
        *(control_plane.turn(control_plane.done(order), capacity=1) for order in others),
    )

    assert answer.verdicts == (ReportResult.ACCEPTED,) * 3
    assert [[order.step for order in one.orders] for one in quick] == [["b"], ["b"]]
    whose = [{commit.execution.execution_id for commit in commits} for commits in control_plane.store.commits]
    assert whose == [{"busy", "x0", "x1"}, {"busy"}, {"busy"}]
    ended = [event.step for event in await control_plane.store.events("busy") if event.event_type == "step.done"]
    assert [step for step in ended if step != "start"] == [order.step for order in own]


async def test_commands_submitted_together_are_decided_in_order_even_if_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker claims last: by then its slots are free, and what its reports made ready is there."""
    monkeypatch.setattr(group_commit, "MOST_EVENTS", 1)
    control_plane = ControlPlane(shared=True)
    await control_plane.start(FORK, execution_id="busy")
    await control_plane.start(execution_id="x0")
    orders = (await control_plane.turn(capacity=4)).orders
    last = [order for order in orders if order.execution_id == "x0"]
    own = [order for order in orders if order.execution_id == "busy"]

    answer = await control_plane.turn(*map(control_plane.done, [*own, *last]), capacity=4)

    assert answer.verdicts == (ReportResult.ACCEPTED,) * 4
    assert [order.step for order in answer.orders] == ["b"]
