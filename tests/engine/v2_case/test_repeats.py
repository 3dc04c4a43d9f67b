"""Retry policies as functions: which one is selected, what it counts, how long it waits (V2C-16 to V2C-19)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.v2_case.parts import BrokenCase
from noetl.engine.v2_case.repeats import Again, Exhausted, counted, exhausted_error, judge
from noetl.events.outcomes import Error, Status, TaskResult
from noetl.events.v2_case_positions import CaseCalls
from noetl.net.task import Directive, Repeat
from noetl.templates.scope import Scope
from noetl.templates.values import Authored

GOOD = TaskResult(result={"more": True})
BAD = TaskResult(status=Status.ERROR, error=Error(kind="http.status", message="no", status=503))
ON_ERROR, ON_MORE = Authored("{{ error }}"), Authored("{{ response.more }}")


def policy(when: Authored | None = None, attempts: Any = 3, **more: Any) -> Repeat:
    written: dict[str, Any] = {
        key: Authored(value) if key not in ("mode", "on_exhausted") else value for key, value in more.items()
    }
    return Repeat(when=when, max_attempts=Authored(attempts), **written)


def after(calls: CaseCalls, result: TaskResult, *policies: Repeat, spread: float = 0.0) -> Any:
    error = result.error.readable() if result.error else None
    scope = Scope({"error": error, "response": result.result, "_retry": {"index": 1, "count": 1}})
    return judge(policies, counted(calls, result), result, scope, now=0.0, spread=spread)


@pytest.mark.req("V2C-16")
def test_the_first_matching_policy_decides_and_no_match_ends_the_sequence() -> None:
    policies = (policy(ON_ERROR), policy(ON_MORE), policy(ON_MORE))

    assert after(CaseCalls(), BAD, *policies).policy == 0
    assert after(CaseCalls(), GOOD, *policies).policy == 1
    assert after(CaseCalls(), TaskResult(result={}), *policies) is None


@pytest.mark.req("V2C-18")
def test_a_policy_without_a_condition_applies_to_errors() -> None:
    assert isinstance(after(CaseCalls(), BAD, policy()), Again)
    assert after(CaseCalls(), GOOD, policy()) is None


@pytest.mark.req("V2C-16")
def test_counts_include_the_first_call_and_the_error_count_restarts_after_a_success() -> None:
    calls, policies = CaseCalls(), (policy(ON_ERROR), policy(ON_MORE, attempts=4))
    seen = []
    for result in (BAD, BAD, GOOD, BAD, BAD, GOOD, GOOD):
        again = after(calls, result, *policies)
        seen.append((again.policy, again.calls.count))
        calls = again.calls

    assert seen == [(0, 1), (0, 2), (1, 3), (0, 4), (0, 5), (1, 6), (1, 7)]
    assert after(calls, GOOD, *policies) == Exhausted(1, 4, False), "four responses, whatever failed between them"
    assert (calls.responses, calls.streak, calls.successes) == (3, 0, {1: 4})


@pytest.mark.req("V2C-19")
@pytest.mark.parametrize(("on_exhausted", "continues"), [(Directive.FAIL, False), (Directive.CONTINUE, True)])
def test_an_exhausted_policy_is_reported(on_exhausted: Directive, continues: bool) -> None:
    assert after(CaseCalls(), BAD, policy(attempts=1, on_exhausted=on_exhausted)) == Exhausted(0, 1, continues)


@pytest.mark.req("V2C-19")
def test_the_error_of_exhaustion_keeps_the_status_of_the_last_call() -> None:
    assert BAD.error is not None
    error = exhausted_error("fetch", Exhausted(0, 5, False), BAD.error)

    assert (error.kind, error.status, error.cause) == ("retry.exhausted", 503, BAD.error)
    assert error.message == 'the call of task "fetch" still failed after 5 attempts'


@pytest.mark.req("V2C-18", "C-16")
@pytest.mark.parametrize(
    ("more", "delays"),
    [
        ({"initial_delay": 2, "multiplier": 3}, [2, 6, 18]),
        ({"initial_delay": 2}, [2, 4, 8]),
        ({"initial_delay": 2, "mode": "linear"}, [2, 4, 6]),
        ({"initial_delay": "2s", "mode": "fixed", "multiplier": 9}, [2, 2, 2]),
        ({"multiplier": 3}, [0, 0, 0]),
        ({"initial_delay": 1, "multiplier": 1e200}, [1, 1e200, 1e9]),
    ],
)
def test_delays_grow_from_the_first_delay(more: dict[str, Any], delays: list[float]) -> None:
    calls, seen = CaseCalls(), []
    for _ in delays:
        again = after(calls, BAD, policy(attempts=9, **more))
        seen.append(again.delay_s)
        calls = again.calls

    assert seen == pytest.approx(delays)


@pytest.mark.req("V2C-18")
@pytest.mark.parametrize(
    ("jitter", "spread", "delay"), [(True, 0.5, 5), (0.2, 0.5, 9), (True, 0.0, 10), (False, 1, 10)]
)
def test_jitter_shortens_a_delay(jitter: Any, spread: float, delay: float) -> None:
    again = after(CaseCalls(), BAD, policy(initial_delay=10, mode="fixed", jitter=jitter), spread=spread)

    assert again.delay_s == pytest.approx(delay)


@pytest.mark.req("V2C-17")
def test_next_call_is_merged_over_the_inputs_of_the_previous_call() -> None:
    policies = (policy(ON_ERROR), policy(ON_MORE, attempts=9, next_call={"params": {"page": "{{ response.page }}"}}))

    first = after(CaseCalls(), TaskResult(result={"more": True, "page": 2}), *policies)
    failed = after(first.calls, BAD, *policies)
    second = after(failed.calls, TaskResult(result={"more": True, "page": 3}), *policies)

    assert [one.calls.over for one in (first, failed, second)] == [
        {"params": {"page": 2}},
        {"params": {"page": 2}},
        {"params": {"page": 3}},
    ]


@pytest.mark.req("TPL-09")
@pytest.mark.parametrize(
    "broken",
    [
        policy(Authored("{{ 1 / 0 }}")),
        policy(attempts="many"),
        policy(attempts=[1]),
        policy(initial_delay="soon"),
        policy(next_call="{{ 5 }}"),
    ],
)
def test_an_invalid_policy_is_reported_and_never_ignored(broken: Repeat) -> None:
    with pytest.raises(BrokenCase) as told:
        after(CaseCalls(), BAD, broken)

    error = told.value.error("fetch")
    assert error.kind == "template.error"
    assert error.message.startswith('retry policy 0 of step "fetch": ')
