"""Limits and rates that are changed while an execution runs (beyond.md §5). Every conversation is a replay test,
too."""

from __future__ import annotations

import random
from typing import Any

import pytest

from noetl.engine.commands import ChangeLimit, Wake
from noetl.engine.decision import Decision
from noetl.events.control import StepRate
from noetl.events.orders import ReportResult
from tests.engine_script import Conversation
from tests.volume import one_in

PY = "tool: {kind: python, code: x}"


def fanned(spec: str, keys: str = "a a a a a") -> Conversation:
    """Tokens to step `work`, one for each key, all on their way or held."""
    arcs = ", ".join(f"{{step: work, args: {{key: {key}}}}}" for key in keys.split())
    talk = Conversation(f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}
  - step: work
    spec: {spec}
    {PY}
""")
    talk.start()
    return talk


def change(talk: Conversation, step: str = "work", **to: Any) -> Decision:
    return talk.decide(ChangeLimit(at=talk.clock.now(), step=step, **to))


def at_work(talk: Conversation) -> int:
    return len(talk.running())


def end_all(talk: Conversation) -> list[int]:
    """End the oldest run until none is left; how many were running before each end."""
    seen = []
    while running := talk.running():
        seen.append(len(running))
        talk.done(running[0])
    return seen


@pytest.mark.req("ADV-07")
@pytest.mark.parametrize("spec", ["{concurrency: {limit: 1}}", "{policy: {quotas: {max_concurrent: 1}}}"])
def test_raising_a_limit_starts_as_many_as_fit_at_once(spec: str) -> None:
    talk = fanned(spec)
    assert at_work(talk) == 1

    decision = change(talk, limit=3, actor="ann", reason="the window is open")

    assert at_work(talk) == 3
    assert [event.event_type for event in decision.events][:3] == ["limit.changed", "token.released", "token.released"]
    assert [(one.limit, one.actor, one.reason) for one in talk.payloads("limit.changed")] == [
        (3, "ann", "the window is open")
    ]
    assert end_all(talk) == [3, 3, 3, 2, 1]
    assert talk.status == "completed"
    assert talk.execution.held.slots == {}


@pytest.mark.req("ADV-07")
def test_lowering_a_limit_starts_none_until_fewer_run() -> None:
    talk = fanned("{concurrency: {limit: 3}}")

    change(talk, limit=1)

    assert at_work(talk) == 3, "what runs is not stopped"
    assert end_all(talk) == [3, 2, 1, 1, 1]
    assert talk.status == "completed"


def test_resetting_a_limit_restores_the_limit_of_the_playbook() -> None:
    talk = fanned('{concurrency: {limit: "{{ 2 }}"}}', "a a a a a a")
    change(talk, limit=1)
    talk.done("work#1")
    talk.done("work#2")
    assert at_work(talk) == 1

    change(talk, limit=None)

    assert at_work(talk) == 2
    assert talk.execution.held.limits == {}


def test_a_changed_limit_applies_to_each_key_separately() -> None:
    talk = fanned('{concurrency: {limit: 1, key: "{{ args.key }}"}}', "a a a b b b")
    assert at_work(talk) == 2

    change(talk, limit=2)

    assert at_work(talk) == 4
    assert {name: len(slot.held) for name, slot in talk.execution.held.slots.items()} == {'key/"a"': 2, 'key/"b"': 2}


def test_a_step_of_the_same_key_keeps_its_own_limit() -> None:
    talk = Conversation(f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}, {{step: a}}, {{step: a}}]}}
  - {{step: a, spec: {{concurrency: {{key: k, limit: 1}}}}, {PY}}}
  - {{step: b, spec: {{concurrency: {{key: k, limit: 1}}}}, {PY}}}
""")
    talk.start()

    change(talk, "a", limit=3)

    assert talk.running() == ["a#1", "a#2"], "b was called first, found no room, and waits before the others"
    talk.done("a#1")
    talk.done("a#2")
    assert talk.running() == ["b#1"]
    end_all(talk)
    assert talk.status == "completed"


def test_a_step_without_a_limit_can_be_given_one_for_later_runs() -> None:
    talk = Conversation(f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: first}}, {{step: work}}]}}
  - {{step: first, {PY}, next: {{spec: {{mode: inclusive}}, arcs: [{{step: work}}, {{step: work}}, {{step: work}}]}}}}
  - {{step: work, {PY}}}
""")
    talk.start()
    change(talk, limit=1)
    talk.done("first")
    assert talk.running() == ["work#1", "work#2"]

    change(talk, limit=None)

    assert talk.running() == ["work#1", "work#2", "work#3", "work#4"]


def test_a_raised_limit_takes_effect_on_resume_while_paused() -> None:
    talk = fanned("{concurrency: {limit: 1}}")
    talk.pause()

    change(talk, limit=2)
    assert at_work(talk) == 1

    talk.resume()
    assert at_work(talk) == 2


def begun(talk: Conversation) -> list[float]:
    """When runs of `work` began, counted from the first."""
    moments = [event.ts for event in talk.log if event.event_type == "step.scheduled" and event.step == "work"]
    return [round(moment - moments[0], 3) for moment in moments]


def pass_time(talk: Conversation, until: float = float("inf")) -> None:
    """Up to so many seconds after the beginning, or as long as somebody waits."""
    end = talk.log[0].ts + until
    while (moment := talk.execution.wake_at) is not None and moment <= end:
        talk.clock.advance(moment - talk.clock.now())
        talk.decide(Wake(at=talk.clock.now()))
    if until != float("inf"):
        talk.clock.advance(end - talk.clock.now())


@pytest.mark.req("ADV-05")
@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        ((2, 1.0), [0, 5, 5, 6, 6, 7]),  # at once, as much as the new rate allows
        ((1, 60.0), [0, 60, 120, 180, 240, 300]),  # slower: counted from the one that has begun
        ((5, 10.0), [0, 5, 5, 5, 5, 10]),  # what has begun in the last ten seconds counts
        (None, [0, 10, 20, 30, 40, 50]),  # as it was
    ],
)
def test_changing_a_rate_plans_all_waiting_tokens_again(rate: tuple[int, float] | None, expected: list[float]) -> None:
    talk = fanned("{rate: {limit: 1, per: 10s}}", "a a a a a a")
    talk.clock.advance(5)

    change(talk, rate=StepRate(limit=rate[0], per_s=rate[1]) if rate else None)
    pass_time(talk)

    assert begun(talk) == expected


def test_resetting_a_rate_counts_runs_started_under_the_other_rate() -> None:
    talk = fanned("{rate: {limit: 2, per: 10s}}", "a a a a a a")
    change(talk, rate=StepRate(limit=2, per_s=100))
    talk.clock.advance(5)

    change(talk, rate=None)
    pass_time(talk)

    assert begun(talk) == [0, 0, 10, 10, 20, 20]


@pytest.mark.req("ADV-05")
def test_lowering_and_raising_a_rate_counts_all_earlier_starts() -> None:
    """A slower rate looks at fewer moments, and forgets none of the others."""
    talk = fanned("{rate: {limit: 3, per: 10s}}", "a a a a a a a")
    talk.clock.advance(1)
    change(talk, rate=StepRate(limit=1, per_s=1))
    pass_time(talk, until=2)

    change(talk, rate=None)
    pass_time(talk)

    assert begun(talk) == [0, 0, 0, 1, 2, 10, 11], "at 10 those of 1 and 2 count still"


@pytest.mark.req("ADV-05")
def test_runs_started_under_an_overridden_rate_count_for_the_playbook_rate() -> None:
    """Also of a key that nobody had when the other rate held."""
    talk = Conversation(f"""
workflow:
  - {{step: start, {PY}, next: {{spec: {{mode: inclusive}}, arcs: [{", ".join(["{step: work}"] * 4)}]}}}}
  - {{step: work, spec: {{rate: {{key: a, limit: 2, per: 1m}}}}, {PY}}}
""")
    talk.start()
    change(talk, rate=StepRate(limit=1, per_s=1))
    talk.done("start")
    pass_time(talk, until=2)

    change(talk, rate=None)
    pass_time(talk)

    assert begun(talk) == [0, 1, 2, 61]


@pytest.mark.req("ADV-05")
@pytest.mark.parametrize("seed", one_in(2, range(20)))
def test_after_any_rate_changes_no_window_exceeds_the_rate_in_force(seed: int) -> None:
    dice, rates = random.Random(seed), [StepRate(limit=n, per_s=s) for n in (1, 2, 5) for s in (1, 4, 16)]
    written = in_force = StepRate(limit=3, per_s=16)
    talk = fanned("{rate: {limit: 3, per: 16s}}", "a " * 60)
    seen = 0
    for turn in range(200):
        moments = begun(talk)
        if len(moments) > seen:  # those of one moment: had it been one too many, none of them would have begun
            assert sum(one > moments[-1] - in_force.per_s for one in moments) <= in_force.limit, (turn, moments)
            seen = len(moments)
        if dice.random() < 0.2:
            rate = dice.choice([None, *rates])
            in_force = rate or written
            change(talk, rate=rate)
        elif (moment := talk.execution.wake_at) is not None:
            pass_time(talk, until=min(moment - talk.log[0].ts, talk.clock.now() - talk.log[0].ts + dice.randrange(6)))


def test_a_step_without_a_rate_can_be_given_one_and_reset() -> None:
    talk = Conversation(f"""
workflow:
  - {{step: start, {PY}, next: {{spec: {{mode: inclusive}}, arcs: [{{step: work}}, {{step: work}}, {{step: work}}]}}}}
  - {{step: work, {PY}}}
""")
    talk.start()
    change(talk, rate=StepRate(limit=1, per_s=10))
    talk.done("start")
    assert begun(talk) == [0]
    talk.clock.advance(1)

    change(talk, rate=None)

    assert begun(talk) == [0, 1, 1]


def test_a_slower_rate_of_another_key_keeps_starts_that_still_count() -> None:
    """A moment far ahead under one rate says nothing about whether those of another are over."""
    talk = Conversation("""
workflow:
  - step: start
    next:
      spec: {mode: inclusive}
      arcs: [{step: quick}, {step: quick}, {step: slow}, {step: slow}, {step: later}]
  - {step: quick, spec: {rate: {limit: 1, per: 10s}}}
  - {step: slow, spec: {rate: {limit: 1, per: 1h}}}
  - {step: later, timer: {duration: 1s}, next: {arcs: [{step: quick}]}}
""")
    talk.start()
    pass_time(talk)

    quick = [event.ts for event in talk.log if event.event_type == "step.scheduled" and event.step == "quick"]
    assert [round(moment - quick[0]) for moment in quick] == [0, 10, 20]


def test_setting_the_same_limit_again_is_a_duplicate() -> None:
    talk = fanned("{concurrency: {limit: 1}}")

    assert change(talk, limit=2).verdict is ReportResult.ACCEPTED
    again = change(talk, limit=2)

    assert (again.verdict, again.events) == (ReportResult.DUPLICATE, ())
    assert change(talk, rate=StepRate(limit=1, per_s=1)).verdict is ReportResult.ACCEPTED
    assert talk.execution.held.limits["work"].limit == 2, "what is left out stays as it is"


@pytest.mark.parametrize(
    ("to", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"rate": StepRate(limit=0, per_s=1)}, "rate.limit"),
        ({"rate": StepRate(limit=1, per_s=0)}, "rate.per"),
        ({"rate": StepRate(limit=1, per_s=float("nan"))}, "rate.per"),
    ],
)
def test_an_invalid_limit_is_refused_with_the_allowed_values(to: dict[str, Any], field: str) -> None:
    talk = fanned("{concurrency: {limit: 1}}")

    refused = change(talk, **to)

    assert (refused.verdict, refused.events) == (ReportResult.INVALID, ())
    assert [problem.field for problem in refused.problems] == [field]


def test_limit_changes_of_an_unknown_step_or_ended_execution_are_refused() -> None:
    talk = fanned("{concurrency: {limit: 1}}")

    assert change(talk, "wrk", limit=2).verdict is ReportResult.NOT_FOUND
    talk.cancel()
    assert change(talk, limit=2).verdict is ReportResult.TERMINAL
