"""Limits within one execution: concurrency, quotas, partitions, and arcs that enqueue a key once (ADV-03 to ADV-07)."""

from __future__ import annotations

import pytest

from noetl.engine.commands import StartExecution
from noetl.engine.decision import DispatchStep
from noetl.events.control import TokenHeld
from tests.engine_script import Conversation
from tests.narrowing import payloads

PY = "tool: {kind: python, code: x}"


def fanned(spec: str, *, keys: str = "a a b") -> str:
    """Tokens to step `work`, one for each key, which they have in their args."""
    arcs = ", ".join(f"{{step: work, args: {{key: {key}}}}}" for key in keys.split())
    return f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}
  - step: work
    spec: {spec}
    {PY}
"""


def begun(text: str) -> Conversation:
    talk = Conversation(text)
    talk.start()
    return talk


def finish(talk: Conversation) -> list[list[str]]:
    """End the oldest run until none is left; what was running before each end."""
    seen = []
    while running := talk.running():
        seen.append(running)
        talk.done(running[0])
    return seen


@pytest.mark.req("ADV-07")
def test_with_a_limit_of_one_the_second_run_starts_after_the_first() -> None:
    talk = begun(fanned("{policy: {quotas: {max_concurrent: 1}}}"))

    assert finish(talk) == [["work#1"], ["work#2"], ["work#3"]]
    assert talk.status == "completed"
    assert talk.execution.held.slots == {}


@pytest.mark.req("ADV-07")
def test_exceeding_the_run_quota_fails_the_execution() -> None:
    talk = begun(fanned("{policy: {quotas: {max_runs: 2}}}"))

    finish(talk)

    assert talk.ran().count("work") == 2
    assert talk.dropped() == [("work", "quota")]
    assert talk.status == "failed"
    assert talk.execution.lifecycle.error is not None
    assert talk.execution.lifecycle.error.message == 'step "work" has had 2 runs, which is its quota'


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        ('{concurrency: {limit: 1, key: "{{ args.key }}"}}', ["work#1", "work#2"]),
        ("{concurrency: {limit: 2}}", ["work#1", "work#2"]),
        ("{concurrency: {limit: 1}}", ["work#1"]),
        ('{concurrency: {limit: "{{ 3 }}"}}', ["work#1", "work#2", "work#3"]),
    ],
)
def test_the_limit_applies_to_each_key(spec: str, first: list[str]) -> None:
    talk = begun(fanned(spec))

    assert talk.running() == first
    finish(talk)
    assert talk.ran().count("work") == 3
    assert talk.status == "completed"


def shared(**limits: str) -> str:
    """Steps a, b, … begun at once, each with the concurrency given for it."""
    arcs = ", ".join(f"{{step: {name}}}" for name in limits)
    steps = "".join(f"  - {{step: {name}, spec: {{concurrency: {limit}}}, {PY}}}\n" for name, limit in limits.items())
    return f"workflow:\n  - step: start\n    next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}\n{steps}"


@pytest.mark.parametrize(
    ("a", "b", "at_once"),
    [
        ("{limit: 1, key: k}", "{limit: 1, key: k}", 1),
        ('{limit: 1, key: "{{ 5 }}"}', "{limit: 1, key: 5}", 1),
        ("{limit: 1, key: k}", "{limit: 1, key: other}", 2),
        ("{limit: 1, key: b}", "{limit: 1}", 2),
        ("{limit: 1}", "{limit: 1}", 2),
    ],
)
def test_steps_with_the_same_key_share_its_limit(a: str, b: str, at_once: int) -> None:
    """Critical section (WCP-39). Without a key a limit is its step's own."""
    talk = begun(shared(a=a, b=b))

    assert max(len(running) for running in finish(talk)) == at_once
    assert talk.ran().count("a") == talk.ran().count("b") == 1
    assert talk.status == "completed"
    assert talk.execution.held.slots == {}


def test_steps_with_one_key_can_have_different_limits() -> None:
    """Two that find no room under their own limit must not call each other up forever."""
    wide, narrow = "{limit: 3, key: k}", "{limit: 1, key: k}"
    talk = begun(shared(a=wide, b=wide, c=wide, d=narrow, e=narrow, f=wide))

    assert talk.running() == ["a#1", "b#1", "c#1"]
    seen = finish(talk)
    assert [len(running) for running in seen if {"d#1", "e#1"} & set(running)] == [1, 1]
    assert sorted(talk.ran()) == ["a", "b", "c", "d", "e", "f", "start"]
    assert talk.status == "completed"
    assert talk.execution.held.slots == {}


def test_the_longest_waiting_token_starts_first() -> None:
    talk = begun(fanned("{concurrency: {limit: 1}}", keys="a b c d"))

    order = []
    while talk.running():
        order.append(talk.run(talk.running()[0]).token.args["key"])
        talk.done(talk.running()[0])

    assert order == ["a", "b", "c", "d"]


def test_a_token_over_the_limit_can_be_dropped() -> None:
    talk = begun(fanned("{concurrency: {limit: 1, on_limit: drop}}"))

    finish(talk)

    assert talk.ran().count("work") == 1
    assert talk.dropped() == [("work", "limit")] * 2
    assert talk.status == "completed"


def test_the_oldest_run_can_be_cancelled_for_a_token_over_the_limit() -> None:
    talk = begun(fanned("{concurrency: {limit: 1, on_limit: cancel_oldest}}", keys="a b c"))

    assert talk.running() == ["work#3"]
    assert talk.dropped() == [("work", "cancelled")] * 2
    assert talk.run("work#3").token.args == {"key": "c"}


def test_a_limit_below_one_fails_the_token() -> None:
    talk = begun(fanned('{concurrency: {limit: "{{ 0 }}"}}', keys="a"))

    assert talk.status == "failed"
    assert talk.execution.lifecycle.error is not None
    assert "concurrency.limit must be a whole number from 1 on, this gave 0" in talk.execution.lifecycle.error.message


@pytest.mark.req("ADV-05")
def test_equal_partitions_run_one_at_a_time_in_order_and_others_in_parallel() -> None:
    text = fanned("{}")
    for key in ("a", "a", "b"):
        text = text.replace(f"args: {{key: {key}}}}}", f"args: {{key: {key}}}, spec: {{partition: {key}}}}}", 1)
    talk = begun(text)

    assert [talk.run(name).token.args["key"] for name in talk.running()] == ["a", "b"]
    talk.done("work#2")
    assert talk.running() == ["work#1"]
    talk.done("work#1")
    assert talk.run("work#3").token.args == {"key": "a"}


@pytest.mark.req("ADV-04")
@pytest.mark.parametrize(
    ("window", "wait_s", "runs"),
    [("", 0, 1), (", window: 60", 10, 1), (", window: 60", 61, 2)],
)
def test_an_arc_enqueues_a_key_once_within_its_dedupe_window(window: str, wait_s: float, runs: int) -> None:
    talk = begun(
        f"""
workflow:
  - step: start
    next: {{arcs: [{{step: source, spec: {{tokens: 2}}}}]}}
  - step: source
    {PY}
    next: {{arcs: [{{step: work, spec: {{dedupe: {{key: "{{{{ event.result }}}}"{window}}}}}}}]}}
  - {{step: work, {PY}}}
"""
    )
    talk.done("source#1", "k")
    talk.clock.advance(wait_s)
    talk.done("source#2", "k")

    assert talk.ran().count("work") == runs
    assert talk.dropped() == [("work", "duplicate")] * (2 - runs)


def test_another_key_or_another_arc_is_not_a_duplicate() -> None:
    talk = begun(
        f"""
workflow:
  - step: start
    next: {{arcs: [{{step: source, spec: {{tokens: 2}}}}]}}
  - step: source
    {PY}
    next:
      spec: {{mode: inclusive}}
      arcs:
        - {{step: work, spec: {{dedupe: {{key: "{{{{ event.result }}}}"}}}}}}
        - {{step: work, spec: {{dedupe: {{key: "{{{{ event.result }}}}"}}}}}}
  - {{step: work, {PY}}}
"""
    )
    talk.done("source#1", 1)
    talk.done("source#2", 2)

    assert talk.ran().count("work") == 4, "each arc has its own keys"


@pytest.mark.req("ADV-03")
def test_an_order_carries_the_priority_of_its_arc() -> None:
    talk = Conversation(
        f"""
workflow:
  - step: start
    next:
      spec: {{mode: inclusive, policy: {{priority: 3}}}}
      arcs: [{{step: a}}, {{step: b, spec: {{priority: "{{{{ 2 + 3 }}}}"}}}}, {{step: c, spec: {{priority: -1}}}}]
  - {{step: a, {PY}}}
  - {{step: b, {PY}}}
  - {{step: c, {PY}}}
"""
    )
    decision = talk.decide(StartExecution(at=talk.clock.now(), net_hash=talk.plan.net_hash))

    assert [effect.priority for effect in decision.effects if isinstance(effect, DispatchStep)] == [3, 5, -1]


@pytest.mark.req("ADM-07", "O-03")
def test_inclusive_admission_waits_only_while_no_rule_has_decided() -> None:
    rules = (
        "{policy: {admit: {mode: inclusive, rules: ["
        '{when: "{{ ctx.wait | default(true) }}", then: {park: true}}, '
        '{when: "{{ ctx.go | default(false) }}", then: {allow: true, set_token: {a: 1}}}, '
        '{when: "{{ ctx.no | default(false) }}", then: {allow: false}}]}}}'
    )
    for patch, ran in (({"go": True}, 1), ({"no": True}, 0)):
        talk = begun(
            f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: gate}}, {{step: a}}]}}
  - step: gate
    spec: {rules}
    {PY}
  - {{step: a, {PY}, next: {{arcs: [{{step: b}}]}}}}
  - {{step: b, {PY}}}
"""
        )
        assert [one.reason for one in payloads(talk.log, TokenHeld)] == ["park"]
        talk.done("a", 1, set_ctx=patch)
        assert talk.ran().count("gate") == ran
