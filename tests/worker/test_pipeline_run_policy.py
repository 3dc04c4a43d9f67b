"""Policies: rules, retries, delays, mutations (POL-01 to POL-12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.playbook_runs import broken
from tests.worker.pipelines import always, pipeline, task

ERROR = "{{ outcome.status == 'error' }}"


def retry(**then: Any) -> dict[str, Any]:
    return {"when": ERROR, "then": {"do": "retry", **then}}


@pytest.mark.req("POL-01", "POL-14")
def test_the_first_matching_rule_decides_and_is_recorded() -> None:
    rules = [
        {"when": "{{ false }}", "then": {"do": "fail"}},
        {"when": "{{ true }}", "then": {"do": "break", "set_iter": {"x": 1}}},
        {"when": "{{ true }}", "then": {"do": "fail"}},
    ]

    decision = pipeline(task("one", *rules), one=1).payloads("task.processed")[0].decision

    assert (decision.rule, decision.do, decision.set_iter) == (1, "break", {"x": 1})


@pytest.mark.req("POL-04")
def test_on_unmatched_fail_fails_unmatched_outcomes() -> None:
    one = task("one", {"when": "{{ false }}", "then": {"do": "continue"}})
    one["spec"]["policy"]["on_unmatched"] = "fail"

    failed = pipeline(one, one=broken())
    fine = pipeline(one, one=1)

    assert failed.result.status == "failed"
    assert fine.result.status == "completed"


@pytest.mark.req("POL-05")
def test_every_attempt_is_counted_and_is_a_task_run_of_its_own() -> None:
    ran = pipeline(task("one", retry(attempts=5)), one=broken())

    started = ran.payloads("task.started")
    assert [one.attempt for one in started] == [1, 2, 3, 4, 5]
    assert len({one.task_run_id for one in started}) == 5


@pytest.mark.req("POL-05")
def test_inputs_are_rendered_for_each_attempt() -> None:
    ran = pipeline(task("one", retry(attempts=3), args={"n": "{{ _attempt }}"}), one=[broken(), 2])

    assert [inputs["args"]["n"] for inputs in ran.tool.inputs_of("one")] == [1, 2]


@pytest.mark.req("POL-06")
def test_an_exhausted_retry_fails_with_its_cause_and_skips_later_rules() -> None:
    ran = pipeline(task("one", retry(attempts=2), always("continue")), one=broken("py.exception", "why"))

    error = ran.payloads("step.failed")[0].error
    assert error.kind == "retry.exhausted"
    assert (error.cause.kind, error.cause.message) == ("py.exception", "why")


@pytest.mark.req("POL-06", "OUT-03", "MIG-03")
def test_an_exhausted_retry_has_status_and_code_of_its_cause() -> None:
    """As in v2-case (V2C-19): a guard on `event.error.status` need not ask whether the call was retried."""
    one = broken("http.status", "busy", status=503, code="E1")
    ran = pipeline(task("one", retry(attempts=2)), one=one)

    error = ran.payloads("step.failed")[0].error
    assert (error.kind, error.status, error.code) == ("retry.exhausted", 503, "E1")


@pytest.mark.req("POL-06")
def test_on_exhausted_continue_continues_the_pipeline() -> None:
    ran = pipeline(task("one", retry(attempts=2, on_exhausted="continue")), task("two"), one=broken(), two=2)

    assert ran.result.result == {"got": 2}


@pytest.mark.req("POL-07")
@pytest.mark.parametrize(
    ("then", "delays"),
    [
        ({"attempts": 4, "delay": 2.0, "backoff": "exponential"}, [2, 4, 8]),
        ({"attempts": 4, "delay": 2, "backoff": "linear"}, [2, 4, 6]),
        ({"attempts": 4, "delay": 3, "backoff": "none"}, [3, 3, 3]),
        ({"attempts": 4, "delay": 2, "backoff": "exponential", "max_delay": 5}, [2, 4, 5]),
        ({"attempts": 3, "backoff": "exponential"}, [1, 2]),
        ({"attempts": 5}, []),
    ],
)
def test_delays_follow_the_backoff(then: dict[str, Any], delays: list[float]) -> None:
    ran = pipeline(task("one", retry(**then)), one=broken())

    assert ran.slept == delays


@pytest.mark.req("POL-07")
def test_jitter_only_shortens_and_is_the_same_on_replay() -> None:
    runs = [pipeline(task("one", retry(attempts=3, delay=10, jitter=0.5)), one=broken()).slept for _ in range(2)]

    assert all(5 <= delay <= 10 for slept in runs for delay in slept)
    assert runs[0][0] != runs[0][1]


@pytest.mark.req("POL-08")
@pytest.mark.parametrize(
    ("after", "delay"),
    [(7, 7), ("7", 7), ("2s", 2), (None, 2), ("Wed, 01 Jan 2025 00:00:30 GMT", 30)],
)
def test_a_delay_is_a_number_numeric_text_a_duration_or_an_http_date(after: Any, delay: float) -> None:
    then = {"attempts": 2, "delay": "{{ outcome.error.details.after | default(2) }}"}
    details = {"after": after} if after is not None else {}

    ran = pipeline(task("one", retry(**then)), one=broken(**details))

    assert ran.slept == [delay]


def test_an_invalid_delay_fails_the_pipeline_with_its_value() -> None:
    ran = pipeline(task("one", retry(attempts=2, delay="{{ 'soon' }}")), one=broken())

    assert "soon" in ran.payloads("step.failed")[0].error.message


@pytest.mark.req("POL-09")
def test_attempt_counters_restart_on_every_visit() -> None:
    more = {
        "when": "{{ iter.page < 2 }}",
        "then": {"do": "jump", "to": "fetch", "set_iter": {"page": "{{ iter.page + 1 }}"}},
    }
    ran = pipeline(
        task("init", always("continue", set_iter={"page": 1}), kind="noop"),
        task("fetch", retry(attempts=3), always("continue")),
        task("paginate", more, always("break"), kind="noop"),
        fetch=[broken(), broken(), 1, broken(), broken(), 2],
    )

    assert ran.result.status == "completed"
    assert [one.attempt for one in ran.payloads("task.started") if one.task == "fetch"] == [1, 2, 3, 1, 2, 3]


@pytest.mark.req("POL-12")
def test_all_values_of_one_then_are_rendered_before_any_is_written() -> None:
    swap = {"set_iter": {"a": "{{ iter.b }}", "b": "{{ iter.a }}"}}
    ran = pipeline(
        task("init", always("continue", set_iter={"a": 1, "b": 2}), kind="noop"),
        task("swap", always("continue", **swap), kind="noop"),
        task("read", args={"a": "{{ iter.a }}", "b": "{{ iter.b }}"}),
    )

    assert ran.tool.inputs_of("read")[0]["args"] == {"a": 2, "b": 1}


@pytest.mark.req("POL-12")
def test_assignments_apply_to_fail_and_to_each_retry_too() -> None:
    count = {"set_ctx": {"n": "{{ (ctx.n | default(0)) + 1 }}"}}
    ran = pipeline(task("one", {"when": ERROR, "then": {"do": "retry", "attempts": 3, **count}}), one=broken())

    assert ran.result.status == "failed"
    assert ran.result.ctx == {"n": 3}


@pytest.mark.req("TPL-01")
def test_keys_of_assignments_are_templates_too() -> None:
    ran = pipeline(task("one", always("continue", set_ctx={"r.{{ outcome.result }}": True})), one="x")

    assert ran.result.ctx == {"r": {"x": True}}
