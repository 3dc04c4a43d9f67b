"""Schedules on a clock that tests move: zones, missed times, overlap, several servers, backfills."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import RefusedError
from noetl.control import schedules as module
from noetl.control.assembly import assemble
from noetl.control.schedules import Schedules, ScheduleStore, execution_id_of, jitter, newest_time, times
from noetl.events.executions import ExecutionRequested, PlaybookProcessed, Starter
from noetl.events.triggers import Backfill, Schedule
from noetl.net.net import content_hash, to_json
from noetl.operations.triggers import ScheduleOperations
from noetl.store.contract import ExecutionRow
from noetl.store.installation import Registration
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from tests.engine_script import HEAD, net_of
from tests.narrowing import payload

DAY = 86_400.0
ZONES = ["America/New_York", "Europe/Berlin", "Australia/Sydney"]


def moment(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


class Server:
    """One server's clockwork on a store. Its runs wait for a worker that never comes, until a test ends them."""

    def __init__(self, store: MemoryStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.executions = assemble(store, MemoryResults(), MemoryWakeups(), clock).executions
        self.schedules = Schedules(store, self.executions, clock)
        self.schedule_store = ScheduleStore(store.key_values)

    async def register(
        self, cron: str, spec: str = "", *, tool: str = "{kind: noop}", head: str = ""
    ) -> Schedule | None:
        trigger = f'trigger: {{timer: {{cron: "{cron}", spec: {{{spec}}}}}}}\n' if cron else ""
        net = net_of(HEAD + head + trigger + f"workflow: [{{step: start, tool: {tool}}}]\n")
        row = await self.store.catalog.register(
            Registration(path=net.path, net_hash=content_hash(net), net=to_json(net), at=self.clock.now())
        )
        return await self.schedule_store.enter(net, row, at=self.clock.now())

    async def pass_by(self, seconds: float, *, look_every: float = 600.0) -> None:
        """Let time pass, the clockwork awake."""
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            self.clock.advance(min(look_every, end - self.clock.now()))
            await self.schedules.turn()

    async def runs(self) -> list[ExecutionRow]:
        return (await self.store.executions(limit=5_000))[::-1]

    async def times(self) -> list[str]:
        """The schedule times of all runs, in the order they were started."""
        found = []
        for row in await self.runs():
            [requested, *_] = await self.store.events(row.execution_id)
            time = str(payload(requested, ExecutionRequested).payload["schedule"]["time"])
            found.append((row.created_at, time))
        return [time for _, time in sorted(found)]


PYTHON = "{kind: python, code: x}"


def server(start: str = "2025-01-01T00:00", zone: str = "UTC") -> Server:
    return Server(MemoryStore(), ManualClock(moment(start, zone)))


@pytest.mark.req("TMR-01")
@pytest.mark.parametrize(
    ("zone", "change"),
    [
        ("America/New_York", "2025-03-09"),
        ("America/New_York", "2025-11-02"),
        ("Europe/Berlin", "2025-03-30"),
        ("Europe/Berlin", "2025-10-26"),
        ("Australia/Sydney", "2025-04-06"),
        ("Australia/Sydney", "2025-10-05"),
    ],
)
async def test_a_daily_schedule_keeps_its_hour_across_clock_changes(zone: str, change: str) -> None:
    here = server()
    day_before = moment(f"{change}T00:00", zone) - DAY
    here.clock.advance(day_before - here.clock.now())
    await here.register("0 6 * * *", f"timezone: {zone}")

    await here.pass_by(3 * DAY)

    fired = [datetime.fromisoformat(one) for one in await here.times()]
    assert [(one.hour, one.minute) for one in fired] == [(6, 0)] * 3
    assert [row.created_at for row in await here.runs()] == [one.timestamp() for one in fired]
    gaps = {round((b - a).total_seconds() / 3600) for a, b in pairwise(fired)}
    assert gaps in ({23, 24}, {24, 25}), "one day was shorter, or longer"


@pytest.mark.req("TMR-01")
@pytest.mark.parametrize("zone", [*ZONES, "UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("cron", ["0 6 * * *", "30 2 * * *", "15 1 * * *", "45 1 * * 0"])
def test_searching_backwards_finds_the_same_times_as_searching_forwards(zone: str, cron: str) -> None:
    after, until = moment("2025-01-01"), moment("2026-01-01")
    ahead = list(times(cron, zone, after=after, until=until))
    back: list[float] = []
    while (found := newest_time(cron, zone, after=after, until=back[-1] - 1 if back else until)) is not None:
        back.append(found)

    assert ahead == back[::-1]
    assert len(ahead) in (52, 365)


@pytest.mark.req("TMR-01")
async def test_the_schedule_time_is_in_the_payload() -> None:
    here = server("2025-03-09T09:59")
    await here.register("0 6 * * *", "timezone: America/New_York")

    await here.pass_by(120)

    assert await here.times() == ["2025-03-09T06:00:00-04:00"]
    [row] = await here.runs()
    [requested, *_] = await here.store.events(row.execution_id)
    assert payload(requested, ExecutionRequested).payload == {
        "schedule": {"time": "2025-03-09T06:00:00-04:00", "timezone": "America/New_York"}
    }


@pytest.mark.req("TMR-01")
@pytest.mark.parametrize(
    ("missed", "started"),
    [
        ("last", ["2025-01-04T00:00:00+00:00"]),
        ("all", [f"2025-01-0{day}T00:00:00+00:00" for day in (2, 3, 4)]),
        ("none", []),
    ],
)
async def test_missed_times_are_handled_after_a_server_outage(missed: str, started: list[str]) -> None:
    here = server()
    await here.register("0 0 * * *", f"missed: {missed}")
    here.clock.advance(3.5 * DAY)

    await here.schedules.turn()
    await here.schedules.turn()

    assert await here.times() == started
    await here.pass_by(DAY)
    assert (await here.times())[len(started) :] == ["2025-01-05T00:00:00+00:00"], "the next one comes as ever"


@pytest.mark.req("TMR-01")
@pytest.mark.parametrize(("missed", "number", "last"), [("last", 2, "03"), ("all", 0, None), ("none", 3, "04")])
async def test_missed_times_are_counted(missed: str, number: int, last: str | None) -> None:
    here = server()
    await here.register("0 0 * * *", f"missed: {missed}", tool=PYTHON)
    here.clock.advance(3.5 * DAY)
    await here.schedules.turn()
    await here.schedules.turn()
    view = await ScheduleOperations(here.store, here.clock).get("tests/test", 1)
    assert view.missed_times == number
    assert view.last_missed == (f"2025-01-{last}T00:00:00+00:00" if last is not None else None)
    await here.pass_by(DAY)
    after = await ScheduleOperations(here.store, here.clock).get("tests/test", 1)
    assert after.missed_times == number
    assert after.last is not None
    assert (after.last.time, after.last.status) == ("2025-01-05T00:00:00+00:00", "running")
    assert after.running == after.last.execution_id


async def test_a_start_less_than_a_minute_late_is_not_missed() -> None:
    here = server()
    await here.register("0 0 * * *", "missed: none")
    here.clock.advance(DAY + 59)
    await here.schedules.turn()
    assert await here.times() == ["2025-01-02T00:00:00+00:00"]
    assert (await here.schedule_store.get("tests/test")).missed_times == 0


async def test_very_many_missed_times_are_counted_up_to_a_bound() -> None:
    here = server()
    await here.register("* * * * *", "missed: none")
    here.clock.advance(365 * DAY)
    await here.schedules.turn()
    kept = await here.schedule_store.get("tests/test")
    assert (kept.missed_times, kept.last_missed) == (module.MOST_COUNTED + 1, moment("2025-12-31T23:59"))


@pytest.mark.req("TMR-01")
async def test_a_year_of_missed_minutes_is_made_up_for_once() -> None:
    here = server()
    await here.register("* * * * *")
    here.clock.advance(365 * DAY)

    await here.schedules.turn()

    assert await here.times() == ["2026-01-01T00:00:00+00:00"]


@pytest.mark.req("TMR-01")
async def test_making_up_all_missed_times_lets_other_schedules_run_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_AT_ONCE", 10)
    here = server()
    await here.register("0 * * * *", "missed: all")
    here.clock.advance(DAY)

    assert await here.schedules.turn() == 0.0, "there is more to do at once"
    assert len(await here.runs()) == 10
    await here.schedules.turn()
    await here.schedules.turn()
    assert len(await here.runs()) == 24


@pytest.mark.req("TMR-01")
async def test_two_servers_start_one_execution() -> None:
    store, clock = MemoryStore(), ManualClock(moment("2025-01-01"))
    one, other = Server(store, clock), Server(store, clock)
    await one.register("0 * * * *")

    for _ in range(5):
        clock.advance(3600)
        await one.schedules.turn()
        await other.schedules.turn()

    assert len(await one.runs()) == 5
    assert (await one.schedule_store.get("tests/test")).kept == clock.now()


@pytest.mark.req("TMR-01")
async def test_a_server_that_died_before_advancing_a_schedule_starts_nothing_twice() -> None:
    here = server()
    await here.register("0 * * * *")
    before = await here.store.key_values.get("schedule", "tests/test")
    assert before is not None
    here.clock.advance(3600)
    await here.schedules.turn()
    after = await here.store.key_values.get("schedule", "tests/test")
    assert after is not None
    await here.store.key_values.put("schedule", "tests/test", before.body, over=after.version, at=0.0)

    await here.schedules.turn()

    assert len(await here.runs()) == 1
    assert (await here.schedule_store.get("tests/test")).kept == here.clock.now()


async def test_a_time_is_skipped_while_the_previous_run_is_open() -> None:
    here = server()
    await here.register("0 * * * *", "overlap: skip", tool=PYTHON)
    await here.pass_by(3 * 3600)
    [row] = await here.runs()
    assert (await here.schedule_store.get("tests/test")).skipped == 2

    await here.executions.cancel(row.execution_id, "enough")
    await here.pass_by(3600)

    assert len(await here.runs()) == 2


async def test_times_queue_behind_the_previous_run() -> None:
    here = server()
    await here.register("0 * * * *", "overlap: queue", tool=PYTHON)
    await here.pass_by(3 * 3600)
    assert len(await here.runs()) == 1

    for number in (2, 3):
        here.clock.advance(1)
        await here.executions.cancel((await here.runs())[-1].execution_id, "enough")
        await here.schedules.turn()
        assert len(await here.runs()) == number

    assert await here.times() == [f"2025-01-01T0{hour}:00:00+00:00" for hour in (1, 2, 3)]


async def test_the_previous_run_can_be_cancelled_for_the_next() -> None:
    here = server()
    await here.register("0 * * * *", "overlap: cancel", tool=PYTHON)

    await here.pass_by(3 * 3600)

    assert [row.status for row in await here.runs()] == ["cancelled", "cancelled", "running"]


async def test_runs_may_overlap_by_default() -> None:
    here = server()
    await here.register("0 * * * *", tool=PYTHON)

    await here.pass_by(3 * 3600)

    assert len(await here.runs()) == 3


async def test_a_paused_schedule_starts_nothing_and_makes_up_for_nothing() -> None:
    here = server()
    await here.register("0 * * * *", "missed: all")
    await here.schedule_store.pause("tests/test", at=here.clock.now())
    await here.pass_by(5 * 3600)
    assert await here.runs() == []

    await here.schedule_store.resume("tests/test", at=here.clock.now())
    await here.pass_by(3600)

    assert await here.times() == ["2025-01-01T06:00:00+00:00"]


async def test_a_schedule_can_start_paused_and_an_operator_setting_persists() -> None:
    here = server()
    entered = await here.register("0 * * * *", "paused: true")
    assert entered is not None
    assert entered.paused
    await here.schedule_store.resume("tests/test", at=here.clock.now())

    again = await here.register("0 * * * *", "paused: true, missed: all")

    assert again is not None
    assert (again.version, again.paused) == (2, False)


@pytest.mark.req("TMR-01")
async def test_the_trigger_of_the_newest_version_applies() -> None:
    here = server()
    await here.register("0 * * * *")
    await here.register("30 12 * * *")
    await here.pass_by(DAY)
    assert await here.times() == ["2025-01-01T12:30:00+00:00"]

    await here.register("")
    await here.pass_by(DAY)

    assert len(await here.runs()) == 1
    with pytest.raises(RefusedError, match="has no schedule"):
        await here.schedule_store.get("tests/test")


async def test_jitter_delays_a_start_by_the_same_time_on_every_server() -> None:
    here = server()
    schedule = await here.register("0 0 * * *", "jitter: 30m")
    assert schedule is not None
    await here.pass_by(3 * DAY + 3600, look_every=60.0)

    late = [row.created_at - moment(time[:10]) for row, time in zip(await here.runs(), await here.times(), strict=True)]

    assert len(late) == 3
    assert len(set(late)) == 3
    assert all(0 <= one - jitter(schedule, moment(f"2025-01-0{day}")) <= 60 for day, one in enumerate(late, 2))
    assert all(one <= 1860 for one in late)


async def test_a_broken_schedule_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    here = server()
    await here.register("0 * * * *")
    await here.store.key_values.put("schedule", "a/broken", b'{"path": 5}', over=0, at=0.0)

    await here.pass_by(3600)

    assert len(await here.runs()) == 1
    assert "schedule a/broken was not kept" in caplog.text


async def test_the_schedule_loop_sleeps_until_the_next_time_but_no_longer_than_its_poll() -> None:
    here = server()
    await here.register("0 * * * *")
    assert await here.schedules.turn() == module.POLL_S

    here.clock.advance(3597)

    assert await here.schedules.turn() == 3.0


@pytest.mark.req("TMR-01")
async def test_a_backfill_of_a_thousand_runs_respects_its_limit() -> None:
    here = server("2025-03-01")
    schedule = await here.register("0 * * * *", tool=PYTHON)
    assert schedule is not None
    await here.schedule_store.pause("tests/test", at=here.clock.now())
    asked = Backfill(
        backfill_id="b1",
        path=schedule.path,
        net_hash=schedule.net_hash,
        cron=schedule.cron,
        timezone=schedule.timezone,
        kept=here.clock.now() - 1000 * 3600,
        until=here.clock.now(),
        limit=50,
    )
    await here.schedule_store.ask_for(asked, at=here.clock.now())

    most = 0
    while await here.schedule_store.backfills():
        await here.schedules.turn()
        running = await here.store.executions(limit=2_000, status="running")
        most = max(most, len(running))
        for row in running:
            await here.executions.cancel(row.execution_id, "done")

    assert most == 50
    assert len(set(await here.times())) == 1000


async def test_a_backfill_does_not_repeat_earlier_runs() -> None:
    here = server("2025-01-01")
    schedule = await here.register("0 0 * * *")
    assert schedule is not None
    await here.pass_by(2 * DAY)
    asked = Backfill(
        backfill_id="b1",
        path=schedule.path,
        net_hash=schedule.net_hash,
        cron=schedule.cron,
        timezone="UTC",
        kept=moment("2024-12-30"),
        until=here.clock.now(),
        limit=10,
    )
    await here.schedule_store.ask_for(asked, at=here.clock.now())

    await here.schedules.turn()

    [backfill] = await here.schedule_store.backfills()
    assert (backfill.started, backfill.known) == (2, 2)
    assert execution_id_of("tests/test", moment("2025-01-01")) in backfill.running + tuple(
        row.execution_id for row in await here.runs()
    )
    assert datetime.fromtimestamp(backfill.kept, UTC).isoformat() == "2025-01-03T00:00:00+00:00"
    await here.schedules.turn()
    assert await here.schedule_store.backfills() == []


async def test_a_scheduled_execution_without_a_required_input_fails_and_names_it() -> None:
    here = server()
    await here.register("0 6 * * *", head="executor: {spec: {required_inputs: [region]}}\n")

    await here.pass_by(DAY)

    [row] = await here.runs()
    assert row.status == "failed"
    assert [event.event_type for event in await here.store.events(row.execution_id)] == [
        "playbook.execution_requested",
        "playbook.processed",
    ]
    [_, processed] = await here.store.events(row.execution_id)
    error = payload(processed, PlaybookProcessed).error
    assert error is not None
    assert (error.kind, '"region"' in error.message) == ("execution.input", True)


async def test_the_log_of_a_run_names_its_schedule_and_planned_time() -> None:
    server = Server(MemoryStore(), ManualClock())
    await server.register("0 * * * *", tool=PYTHON)

    await server.pass_by(3_700)

    row, *_ = await server.runs()
    [requested, *_] = await server.store.events(row.execution_id)
    planned_at = row.created_at // 3_600 * 3_600
    assert payload(requested, ExecutionRequested).starter == Starter(kind="schedule", planned_at=planned_at)
