"""Tokens held until a moment: delays of arcs, and rates of steps (ADV-05, V2C-12, beyond.md §1)."""

from __future__ import annotations

import pytest

from tests.engine.waiting import Waiting


def starts(talk: Waiting, step: str) -> list[float]:
    """When its runs were scheduled, in seconds from the beginning."""
    first = talk.log[0].ts
    return [event.ts - first for event in talk.log if event.event_type == "step.scheduled" and event.step == step]


def to_the_end(talk: Waiting) -> None:
    while talk.execution.wake_at is not None:
        talk.sleep()


@pytest.mark.req("ADV-05")
def test_a_delayed_token_is_enqueued_at_its_time() -> None:
    talk = Waiting(
        """
workload: {n: 4}
workflow:
  - {step: start, next: {arcs: [{step: end, spec: {delay: "{{ workload.n * 2 }}s"}}]}}
  - {step: end}
"""
    )
    talk.start()
    assert talk.types()[-3:] == ["token.created", "token.held", "token.consumed"]

    assert talk.sleep() == 8

    assert talk.event_names("token.released", "token.enqueued")[1:] == ["token.released", "token.enqueued"]
    assert talk.status == "completed"


@pytest.mark.req("ADV-05", "TPL-09")
def test_a_delay_that_cannot_be_rendered_fails_the_routing() -> None:
    talk = Waiting(
        "workflow: [{step: start, next: {arcs: [{step: end, spec: {delay: '{{ \"soon\" }}'}}]}}, {step: end}]"
    )
    talk.start()

    assert talk.status == "failed"
    assert "delay" in str(talk.execution.lifecycle.error)


@pytest.mark.req("ADV-05", "O-01")
@pytest.mark.parametrize(("join", "ran_at"), [("all", [10.0]), ("any", [0.0])])
def test_a_join_waits_for_a_delayed_token_or_drops_it_on_arrival(join: str, ran_at: list[float]) -> None:
    talk = Waiting(
        f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}]}}
  - {{step: a, next: {{arcs: [{{step: meet}}]}}}}
  - {{step: b, next: {{arcs: [{{step: meet, spec: {{delay: 10}}}}]}}}}
  - {{step: meet, spec: {{join: {join}}}}}
"""
    )
    talk.start()
    to_the_end(talk)

    assert starts(talk, "meet") == ran_at
    assert talk.status == "completed"
    assert talk.dropped() == ([] if join == "all" else [("meet", "late")])


@pytest.mark.req("ADV-05", "O-02")
def test_a_delayed_token_can_be_withdrawn() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: later, spec: {delay: 1h}}, {step: now}]}
  - {step: later}
  - {step: now, next: {arcs: [{step: end, spec: {cancel: [later]}}]}}
  - {step: end}
"""
    )
    talk.start()

    assert talk.status == "completed"
    assert talk.execution.open_waits.due_times.due == {}


@pytest.mark.req("ADV-05", "O-16")
def test_delayed_tokens_of_a_paused_execution_come_due_and_are_held() -> None:
    talk = Waiting("workflow: [{step: start, next: {arcs: [{step: end, spec: {delay: 5}}]}}, {step: end}]")
    talk.start()
    talk.pause()
    assert talk.wake(10) == []

    talk.resume()

    assert talk.status == "completed"


RATE = """
workflow:
  - {step: start, next: {arcs: [{step: call, spec: {tokens: %d}, args: {k: 1}}]}}
  - {step: call, spec: {rate: {limit: %s, per: 10s%s}}}
"""


@pytest.mark.req("ADV-05")
def test_no_time_window_has_more_starts_than_the_rate_allows() -> None:
    talk = Waiting(RATE % (7, "3", ""))
    talk.start()
    to_the_end(talk)

    assert starts(talk, "call") == [0, 0, 0, 10, 10, 10, 20]
    held = talk.payloads("token.held")
    assert len(held) == 4, "each waits once, for a moment of its own"
    assert talk.status == "completed"


@pytest.mark.req("ADV-05")
@pytest.mark.parametrize("paused", [True, False])
def test_tokens_that_came_due_during_an_outage_do_not_all_start_together(paused: bool) -> None:
    talk = Waiting(RATE % (7, "2", ""))
    talk.start()
    if paused:
        talk.pause()
    talk.clock.advance(25)  # past two of the three moments ahead
    if paused:
        talk.resume()
    to_the_end(talk)

    assert starts(talk, "call") == [0, 0, 25, 25, 35, 35, 45]
    assert talk.status == "completed"
    assert talk.execution.held.paces.keys() <= {"step/call"}


@pytest.mark.req("ADV-05")
def test_a_slightly_late_clock_moves_no_planned_start() -> None:
    talk = Waiting(RATE % (3, "1", ""))
    talk.start()
    talk.wake(10.5)
    talk.wake(9.75)

    assert starts(talk, "call") == [0, 10.5, 20.25]
    assert len(talk.payloads("token.held")) == 2, "nobody was given another moment"


@pytest.mark.req("ADV-05")
def test_a_withdrawn_token_frees_its_planned_start() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    next:
      spec: {mode: inclusive}
      arcs: [{step: call, spec: {tokens: 3}}, {step: stop, spec: {delay: 5}}, {step: late, spec: {delay: 6}}]
  - {step: call, spec: {rate: {key: api, limit: 1, per: 10s}}}
  - {step: stop, next: {arcs: [{step: end, spec: {cancel: [call]}}]}}
  - {step: late, spec: {rate: {key: api, limit: 1, per: 10s}}}
  - step: end
"""
    )
    talk.start()
    to_the_end(talk)

    assert starts(talk, "call") == [0]
    assert starts(talk, "late") == [10]


@pytest.mark.req("ADV-05")
def test_the_rate_window_slides() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: call}
        - {step: call, spec: {delay: 8}}
        - {step: call, spec: {delay: 9}}
        - {step: call, spec: {delay: 11}}
  - {step: call, spec: {rate: {limit: 2, per: 10s}}}
"""
    )
    talk.start()
    to_the_end(talk)

    assert starts(talk, "call") == [0, 8, 10, 18]


@pytest.mark.req("ADV-05")
def test_each_key_has_its_own_rate_and_is_forgotten_when_it_expires() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: call, args: {k: a}}
        - {step: call, args: {k: a}}
        - {step: call, args: {k: b}}
        - {step: call, args: {k: c}, spec: {delay: 100}}
  - {step: call, spec: {rate: {key: "{{ args.k }}", limit: 1, per: 10s}}}
"""
    )
    talk.start()
    to_the_end(talk)

    assert starts(talk, "call") == [0, 0, 10, 100]
    assert len(talk.execution.held.paces) <= 2


@pytest.mark.req("ADV-05")
def test_steps_of_one_key_share_their_rate() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - {step: a, spec: {rate: {key: api, limit: 1, per: 10s}}}
  - {step: b, spec: {rate: {key: api, limit: 1, per: 10s}}}
"""
    )
    talk.start()
    to_the_end(talk)

    assert (starts(talk, "a"), starts(talk, "b")) == ([0], [10])


@pytest.mark.req("ADV-05", "TPL-09")
@pytest.mark.parametrize(("limit", "said"), [("'{{ 0 }}'", "rate.limit"), ("'{{ none }}'", "rate.limit")])
def test_an_invalid_rate_fails_the_token(limit: str, said: str) -> None:
    talk = Waiting(RATE % (1, limit, ""))
    talk.start()

    assert talk.status == "failed"
    assert said in str(talk.execution.lifecycle.error)


@pytest.mark.req("ADV-05", "ADV-07")
def test_a_rate_and_a_concurrency_limit_both_apply() -> None:
    talk = Waiting(
        """
workflow:
  - {step: start, next: {arcs: [{step: call, spec: {tokens: 3}}]}}
  - {step: call, tool: {kind: python, code: x}, spec: {rate: {limit: 2, per: 10s}, concurrency: {limit: 1}}}
"""
    )
    talk.start()
    talk.clock.advance(1)
    talk.done("call#1", 1)
    talk.clock.advance(1)
    talk.done("call#2", 1)
    assert starts(talk, "call") == [0, 1]
    talk.sleep()
    talk.done("call#3", 1)

    assert starts(talk, "call") == [0, 1, 10]
    assert talk.status == "completed"
