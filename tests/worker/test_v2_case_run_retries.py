"""Repeated calls: retries, polling and pagination by one mechanism; sinks and what is collected (V2C-16 to V2C-21)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.diagnostics import Source
from noetl.events.steps import CtxPatched
from noetl.language.conversion import convert
from noetl.tools.kinds import load_kinds
from tests.narrowing import payload
from tests.playbook_runs import Ran, broken
from tests.worker.case_running import answer, called, case_text, fixture, refused, run_case, visited

PAGE_1 = answer({"items": [1, 2], "page": 1, "has_more": True})
PAGE_2 = answer({"items": [3], "page": 2, "has_more": False})


def pages(ran: Ran) -> list[Any]:
    return [inputs["params"]["page"] for inputs in ran.tool.inputs_of("start_task")]


@pytest.mark.req("V2C-16", "V2C-17", "V2C-21", "O-28")
def test_errors_are_retried_and_pages_fetched_collected_and_stored() -> None:
    ran = run_case(fixture("F-001-B"), start_task=[refused(429), refused(429), PAGE_1, PAGE_2])

    assert pages(ran) == [1, 1, 1, 2]
    assert ran.slept == [1, 2]
    assert ran.result.ctx == {"all_items": [1, 2, 3]}
    sinks = [inputs["args"] for inputs in ran.tool.inputs_of("start_retry_1_sink")]
    assert sinks == [
        {"page": {"items": [1, 2], "page": 1, "has_more": True}, "iter": 1},
        {"page": {"items": [3], "page": 2, "has_more": False}, "iter": 2},
    ]
    assert ran.payloads("step.done")[0].result.result["data"]["pages"] == [1, 2, 3]
    assert ran.result.status == "completed"


@pytest.mark.req("V2C-16")
def test_each_page_has_all_its_attempts() -> None:
    """A count of errors starts again after a response, or a long sequence would run out of patience."""
    fails = [refused(429)] * 4
    ran = run_case(fixture("F-001-B"), start_task=[*fails, PAGE_1, *fails, PAGE_2])

    assert pages(ran) == [1] * 5 + [2] * 5, "an error repeats the call as it was"
    assert ran.slept == [1, 2, 4, 8] * 2
    assert ran.result.ctx == {"all_items": [1, 2, 3]}


@pytest.mark.req("V2C-16", "O-28")
def test_a_single_page_is_collected_and_stored_too() -> None:
    ran = run_case(fixture("F-001-B"), start_task=PAGE_2)

    assert (pages(ran), ran.result.ctx) == ([1], {"all_items": [3]})
    assert len(ran.tool.inputs_of("start_retry_1_sink")) == 1


@pytest.mark.req("V2C-19", "V2C-16")
def test_persistent_errors_fail_the_step() -> None:
    ran = run_case(fixture("F-001-B"), start_task=refused(503))

    assert len(pages(ran)) == 5
    assert ran.slept == [1, 2, 4, 8]
    assert ran.result.error is not None
    assert (ran.result.status, ran.result.error.kind, ran.result.error.status) == ("failed", "retry.exhausted", 503)
    assert ran.result.error.cause is not None
    assert ran.result.error.cause.kind == "http.status"
    assert ran.tool.inputs_of("start_retry_1_sink") == []


@pytest.mark.req("V2C-16")
def test_an_error_without_a_matching_policy_is_not_retried() -> None:
    ran = run_case(fixture("F-001-B"), start_task=refused(404))

    assert len(pages(ran)) == 1
    assert ran.result.error is not None
    assert ran.result.error.kind == "http.status"


POLL = """
    - step: start
      tool: {kind: python, code: x}
      retry:
        - when: "{{ response.state == 'RUNNING' }}"
          then: {max_attempts: 3, initial_delay: 2, backoff_multiplier: 1.5}
      case:
        - {when: "{{ event.name == 'call.done' and response.state == 'DONE' }}", then: {next: good}}
        - {when: "{{ event.name == 'call.done' }}", then: {next: late}}
    - {step: good, next: end}
    - {step: late, next: end}
"""


@pytest.mark.req("V2C-19", "O-28")
@pytest.mark.parametrize(
    ("answers", "slept", "last"),
    [
        ([{"state": "RUNNING"}], [2, 3], "late"),
        ([{"state": "RUNNING"}, {"state": "DONE"}], [2], "good"),
    ],
)
def test_polling_ends_with_the_last_response_and_records_one_event(
    answers: list[Any], slept: list[float], last: str
) -> None:
    ran = run_case(POLL, start_task=answers)

    assert ran.slept == slept
    assert visited(ran) == ["start", last, "end"]
    assert [one.on for one in ran.payloads("case.evaluated")] == ["call.done"]


@pytest.mark.req("V2C-16", "V2C-18", "C-16")
@pytest.mark.parametrize(
    ("retry", "slept"),
    [
        ("{max_attempts: 4, delay: 10, spec: {mode: linear}}", [10, 20, 30]),
        ("{max_attempts: 4, delay: 10, spec: {mode: fixed}}", [10, 10, 10]),
        ("{max_attempts: 4, delay: 10, spec: {mode: exponential}}", [10, 20, 40]),
        ("{max_attempts: 4, delay: 1, spec: {mode: exponential, backoff_base: 3}}", [1, 3, 9]),
        ("{max_attempts: 4, initial_delay: 2, backoff_multiplier: 1.5}", [2, 3, 4.5]),
        ("{max_attempts: 2}", []),
        ("{max_attempts: '{{ workload.n }}', delay: '{{ _retry.index }}', spec: {mode: fixed}}", [1, 2]),
        ("[{when: '{{ error }}', then: {max_attempts: 4, initial_delay: 5}}]", [5, 5, 5]),
        ("[{when: '{{ error }}', then: {max_attempts: 3, initial_delay: 5, backoff_multiplier: 2}}]", [5, 10]),
        ("[{when: '{{ error }}', then: {max_attempts: 3, initial_delay: 5, spec: {mode: linear}}}]", [5, 10]),
    ],
)
def test_the_delay_grows_by_the_policy(retry: str, slept: list[float]) -> None:
    ran = run_case(
        f"""
        - step: start
          tool: {{kind: python, code: x}}
          retry: {retry}
        """,
        {"n": 3},
        start_task=broken(),
    )

    assert ran.slept == slept
    assert ran.result.status == "failed"


@pytest.mark.req("V2C-18")
def test_jitter_shortens_the_delay_deterministically() -> None:
    steps = """
        - step: start
          tool: {kind: python, code: x}
          retry: {max_attempts: 3, delay: 100, spec: {mode: fixed, jitter: 0.1}}
        """
    ran = run_case(steps, start_task=broken())

    assert len(ran.slept) == 2
    assert all(90 <= delay <= 100 for delay in ran.slept)
    assert ran.slept[0] != ran.slept[1]


@pytest.mark.req("V2C-18")
def test_exhausted_retries_with_continue_do_not_fail_the_step() -> None:
    ran = run_case(
        """
        - step: start
          tool: {kind: python, code: x}
          retry: {max_attempts: 2, spec: {on_exhausted: continue}}
          sink: {tool: {kind: postgres, auth: pg_creds, table: t}, args: {a: 1}}
          next: b
        - {step: b, tool: {kind: python, args: {r: "{{ start.data }}"}, code: x}}
        """,
        start_task=broken(),
    )

    assert called(ran) == ["start_task", "start_task", "b_task"]
    assert ran.tool.inputs_of("b_task")[0]["args"] == {"r": None}
    assert ran.result.status == "completed"


@pytest.mark.req("V2C-19")
def test_a_rule_can_handle_exhausted_retries() -> None:
    ran = run_case(
        """
        - step: start
          tool: {kind: http, url: x}
          retry: {max_attempts: 3}
          case:
            - when: "{{ response.error.kind == 'retry.exhausted' and response.status_code == 500 }}"
              then: {next: b}
        - {step: b, next: end}
        """,
        start_task=refused(500),
    )

    assert (called(ran), visited(ran)) == (["start_task"] * 3, ["start", "b", "end"])
    assert ran.result.status == "completed"


@pytest.mark.req("V2C-17")
@pytest.mark.parametrize(
    ("strategy", "path", "gives"),
    [
        ("append", "data.items", [1, 2, 3]),
        ("push", "data.items", [[1, 2], [3]]),
        ("replace", "data.items", [3]),
        ("merge", "data", {"items": [3], "page": 2, "has_more": False}),
        ("append", "data.page", [1, 2]),
        ("append", "data.items.0", [1, 3]),
        ("append", "nowhere", []),
    ],
)
def test_responses_are_collected_by_the_strategy(strategy: str, path: str, gives: Any) -> None:
    text = (
        fixture("F-001-B")
        .replace("strategy: append", f"strategy: {strategy}")
        .replace("path: data.items", f"path: {path}")
    )

    ran = run_case(text, start_task=[PAGE_1, PAGE_2])

    assert ran.result.ctx == {"all_items": gives}


@pytest.mark.req("V2C-17", "O-28")
def test_collected_values_are_read_by_name_and_as_a_field_of_the_result() -> None:
    ran = run_case(
        """
        - step: start
          tool: {kind: python, code: x}
          retry:
            - when: "{{ response.more }}"
              then: {max_attempts: 9, next_call: {args: {n: "{{ _retry.count }}"}}, collect: {path: v, into: all}}
          case:
            - when: "{{ event.name == 'call.done' and all | length == 3 }}"
              then:
                - seen:
                    tool:
                      kind: python
                      args: {bare: "{{ all }}", field: "{{ result.all }}", last: "{{ result.v }}"}
                      code: x
                - next: {next: [{step: b}]}
        - {step: b, tool: {kind: python, args: {all: "{{ start.all }}", v: "{{ start.data.v }}"}, code: x}}
        """,
        start_task=[{"v": 1, "more": True}, {"v": 2, "more": True}, {"v": 3}],
    )

    assert ran.tool.inputs_of("seen")[0]["args"] == {"bare": [1, 2, 3], "field": [1, 2, 3], "last": 3}
    assert ran.tool.inputs_of("b_task")[0]["args"] == {"all": [1, 2, 3], "v": 3}
    assert [inputs.get("args") for inputs in ran.tool.inputs_of("start_task")] == [None, {"n": 1}, {"n": 2}]


@pytest.mark.req("V2C-17")
def test_a_response_is_never_evaluated_as_a_template() -> None:
    ran = run_case(
        """
        - step: start
          tool: {kind: python, args: {n: 0, keep: 1}, code: x}
          retry: [{when: "{{ response.next }}", then: {max_attempts: 3, next_call: {args: {n: "{{ response.next }}"}}}}]
        """,
        start_task=[{"next": "{{ workload }}"}, {}],
    )

    assert ran.tool.inputs_of("start_task")[1]["args"] == {"n": "{{ workload }}", "keep": 1}


@pytest.mark.req("V2C-17")
def test_next_call_does_not_replace_sql_text() -> None:
    ran = run_case(
        """
        - step: start
          tool: {kind: postgres, auth: pg_creds, command: "SELECT 1"}
          retry: [{when: "{{ response.sql }}", then: {max_attempts: 3, next_call: {command: "{{ response.sql }}"}}}]
        """,
        start_task={"sql": "DROP TABLE people"},
    )

    assert called(ran) == ["start_task"]
    assert ran.result.error is not None
    assert (ran.result.error.kind, "next_call" in ran.result.error.message) == ("sql.fragment", True)


@pytest.mark.req("V2C-17", "V2C-11")
def test_a_page_that_cannot_be_stored_ends_the_sequence() -> None:
    ran = run_case(fixture("F-001-B"), start_task=[PAGE_1, PAGE_2], start_retry_1_sink=broken("pg.error"))

    assert pages(ran) == [1]
    assert ran.result.error is not None
    assert ran.result.error.kind == "pg.error"


@pytest.mark.req("V2C-16", "TPL-09")
@pytest.mark.parametrize(
    "policy",
    [
        '{when: "{{ 1 / 0 }}", then: {max_attempts: 3}}',
        '{when: "{{ error }}", then: {max_attempts: "{{ error.kind }}"}}',
        '{when: "{{ error }}", then: {max_attempts: 3, initial_delay: "{{ error.kind }}"}}',
        '{when: "{{ error }}", then: {max_attempts: 3, next_call: {args: "{{ nope + 1 }}"}}}',
    ],
)
def test_a_policy_that_cannot_be_evaluated_fails_the_step(policy: str) -> None:
    ran = run_case(
        f"""
        - step: start
          tool: {{kind: python, code: x}}
          retry: [{policy}]
          case: [{{when: "{{{{ event.name == 'call.error' }}}}", then: {{next: b}}}}]
        - {{step: b, next: end}}
        """,
        start_task=broken(),
    )

    assert ran.result.error is not None
    assert (ran.result.error.kind, visited(ran)) == ("template.error", ["start"])
    assert "retry policy 0" in ran.result.error.message


@pytest.mark.req("V2C-09", "V2C-16")
def test_a_rule_can_repeat_the_call_before_it_continues() -> None:
    steps = """
        - step: start
          tool: {kind: python, code: x}
          case:
            - when: "{{ event.name == 'call.error' }}"
              then: {set: {again: true}, retry: {max_attempts: 3, delay: 1, spec: {mode: fixed}}}
            - {when: "{{ event.name == 'call.done' }}", then: {next: good}}
            - {when: "{{ event.name == 'call.error' }}", then: {next: bad}}
        - {step: good, next: end}
        - {step: bad, next: end}
        """
    mended = run_case(steps, start_task=[broken(), broken(), 1])
    never = run_case(steps, start_task=broken())

    assert (called(mended), mended.slept) == (["start_task"] * 3, [1, 1])
    assert (visited(mended), mended.result.ctx) == (["start", "good", "end"], {"again": True})
    assert mended.payloads("step.done")[0].result.result == 1
    assert (called(never), visited(never)) == (["start_task"] * 3, ["start", "bad", "end"])


@pytest.mark.req("V2C-20", "C-13")
def test_the_sink_of_a_step_stores_once_after_a_response_and_before_the_exit() -> None:
    steps = """
        - step: start
          tool: {kind: http, url: x}
          sink: {tool: {kind: postgres, auth: pg_creds, table: t}, args: {n: "{{ result.n }}", s: "{{ this.status }}"}}
          vars: {n: "{{ result.n }}"}
          case:
            - {when: "{{ event.name == 'call.done' }}", then: [{first: {tool: {kind: python, code: x}}}]}
            - when: "{{ event.name == 'step.exit' }}"
              then: [{last: {tool: {kind: python, args: {v: "{{ vars.n }}"}, code: x}}}]
        """
    ran, failed = run_case(steps, start_task=answer({"n": 4})), run_case(steps, start_task=refused(500))

    assert called(ran) == ["start_task", "first", "start_sink", "last"]
    assert ran.tool.inputs_of("start_sink")[0]["args"] == {"n": 4, "s": "success"}
    assert ran.tool.inputs_of("last")[0]["args"] == {"v": 4}
    types = ran.types()
    assert types.index("sink.started") < types.index("sink.processed")
    assert types.count("sink.started") == types.count("sink.processed") == 1
    patched = next(event for event in ran.events if event.event_type == "ctx.patched")
    assert (patched.source, payload(patched, CtxPatched).patch) == ("server", {"n": 4})
    assert called(failed) == ["start_task", "last"]
    assert failed.result.ctx == {}


@pytest.mark.req("V2C-20", "V2C-11")
def test_a_result_that_could_not_be_stored_ends_the_step() -> None:
    steps = """
        - step: start
          tool: {kind: http, url: x}
          sink: {tool: {kind: postgres, auth: pg_creds, table: t}, args: {n: "{{ result.n }}"}}
          case:
            - {when: "{{ event.name == 'call.done' }}", then: {next: good}}
            - {when: "{{ event.name == 'call.error' and response.error.kind == 'pg.error' }}", then: {next: bad}}
        - {step: good, next: end}
        - {step: bad, next: end}
        """
    ran = run_case(steps, start_task=answer({"n": 4}), start_sink=broken("pg.error"))

    assert visited(ran) == ["start", "bad", "end"]


@pytest.mark.req("V2C-21", "C-05")
def test_vars_of_a_plain_step_are_written_by_the_server() -> None:
    rows = [{"user_id": 7, "email": "a@b"}]
    ran = run_case(fixture("F-001-D"), fetch_user_task=answer(rows))

    assert ran.tool.inputs_of("use_it_task")[0]["args"] == {"u": 7, "e": "a@b"}
    patched = [event for event in ran.events if event.event_type == "ctx.patched"]
    assert [(event.source, payload(event, CtxPatched).patch) for event in patched] == [
        ("server", {"user_id": 7, "user_email": "a@b"})
    ]


@pytest.mark.req("V2C-16", "V2C-21", "V2C-20", "QNT-02")
def test_a_job_is_polled_and_its_result_stored() -> None:
    ran = run_case(
        fixture("F-001-E"),
        submit_qpu_job_task={"job_id": "j1"},
        poll_qpu_job_task=[{"state": "QUEUED"}, {"state": "RUNNING"}, {"state": "DONE"}],
        fetch_results_task={"counts": {"00": 500, "11": 524}},
    )

    assert ran.slept == [2, 2.2]
    assert [inputs["job_id"] for inputs in ran.tool.inputs_of("poll_qpu_job_task")] == ["j1"] * 3
    assert [inputs["args"] for inputs in ran.tool.inputs_of("fetch_results_case_0_sink")] == [
        {"job_id": "j1", "counts": {"00": 500, "11": 524}}
    ]
    assert visited(ran)[-1] == "end"


@pytest.mark.req("C-13", "EVT-02")
def test_each_retry_is_recorded_with_its_delay_and_outcome() -> None:
    ran = run_case(fixture("F-001-B"), start_task=[refused(429), PAGE_1, PAGE_2])

    started, processed = ran.payloads("retry.started"), ran.payloads("retry.processed")
    assert [(one.policy, one.count, one.delay_s) for one in started] == [(0, 2, 1.0), (1, 3, 0.0)]
    assert [(one.policy, one.count, one.status) for one in processed] == [(0, 2, "success"), (1, 3, "success")]


@pytest.mark.req("V2C-17", "MIG-06")
@pytest.mark.parametrize(
    ("path", "gives"),
    [("data", [1, 2, 3]), ("data.data", [1, 2, 3]), ("data.page", [1, 2]), ("data.nowhere", [])],
)
def test_pages_of_a_body_with_its_own_data_are_appended_and_so_after_migration(path: str, gives: list[int]) -> None:
    text = case_text(
        """
        - step: start
          tool: {kind: http, url: u, params: {page: 1}}
          retry:
            - when: "{{ response.data.more }}"
              then: {max_attempts: 9, next_call: {params: {page: 2}}, collect: {path: PATH, into: all}}
          next: b
        - {step: b, tool: {kind: http, url: "{{ start.all }}"}}
        """.replace("PATH", path)
    )
    pages = [answer({"data": [1, 2], "page": 1, "more": True}), answer({"data": [3], "page": 2})]
    migrated = convert(Source("t.yaml", text), kinds=load_kinds())

    for one in (text, migrated.text or ""):
        ran = run_case(one, start_task=list(pages), b_task=None)

        assert ran.tool.inputs_of("b_task")[0]["url"] == gives


@pytest.mark.req("V2C-17", "MIG-06")
def test_merged_pages_are_merged_after_migration_too() -> None:
    text = case_text(
        """
        - step: start
          tool: {kind: http, url: u, params: {page: 1}}
          retry:
            - when: "{{ response.data.more }}"
              then: {max_attempts: 9, next_call: {params: {page: 2}}, collect: {path: data, into: all, strategy: merge}}
          next: b
        - {step: b, tool: {kind: http, url: "{{ start.all }}"}}
        """
    )
    pages = [answer({"a": 1, "b": 2, "more": True}), answer({"b": 3, "more": False})]
    migrated = convert(Source("t.yaml", text), kinds=load_kinds())

    for one in (text, migrated.text or ""):
        ran = run_case(one, start_task=list(pages), b_task=None)

        assert ran.tool.inputs_of("b_task")[0]["url"] == {"a": 1, "b": 3, "more": False}


@pytest.mark.req("V2C-08", "MIG-03", "ROUTE-14")
def test_a_transition_reads_what_its_rule_sets_after_migration_too() -> None:
    text = case_text(
        """
        - step: start
          tool: {kind: http, url: u}
          case:
            - when: "{{ event.name == 'call.done' }}"
              then: {set: {uid: "{{ result.id }}"}, next: [{step: b, args: {u: "{{ vars.uid }}"}}]}
        - {step: b, tool: {kind: http, url: "{{ args.u }}"}}
        """
    )
    migrated = convert(Source("t.yaml", text), kinds=load_kinds())

    for one in (text, migrated.text or ""):
        ran = run_case(one, start_task=answer({"id": 7}), b_task=None)

        assert ran.tool.inputs_of("b_task")[0]["url"] == 7
