"""Behaviour: migrated documents run, and do what the old ones were specified to do (the fixtures' "Expect" lines).

Tools are answered by a script and time is moved by hand. Where this version can run the old dialect too, both are run
and compared.
"""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.events.tasks import TaskProcessed
from noetl.tools.contract import ToolResult
from tests.language.migrating.migrated import HEAD, fixture, migrated
from tests.playbook_runs import Ran
from tests.worker.case_running import answer, refused, run_case


def run_migrated(name: str, **answers: Any) -> Ran:
    migration = migrated(fixture(name))
    assert migration.blocked == ()
    return run_case(migration.text, **answers)


def steps_run(ran: Ran) -> list[str]:
    return [str(event.step) for event in ran.events if event.event_type in ("step.done", "step.failed")]


@pytest.mark.req("MIG-03", "V2C-16", "V2C-17", "V2C-21")
def test_pagination_calls_waits_collects_and_stores_as_before() -> None:
    pages = [
        refused(429),
        refused(429),
        answer({"items": [1, 2], "page": 1, "has_more": True}),
        answer({"items": [3], "page": 2, "has_more": False}),
    ]

    ran = run_migrated("F-001-B", start_task=pages)

    assert ran.result.status == "completed"
    assert [inputs["params"]["page"] for inputs in ran.tool.inputs_of("start_task")] == [1, 1, 1, 2]
    assert ran.slept == [1, 2]
    assert ran.result.ctx == {"all_items": [1, 2, 3]}
    assert [inputs["args"]["iter"] for inputs in ran.tool.inputs_of("start_retry_1_sink")] == [1, 2]


@pytest.mark.req("MIG-03", "V2C-19")
def test_five_failing_responses_exhaust_the_retry() -> None:
    ran = run_migrated("F-001-B", start_task=refused(503))

    assert ran.result.status == "failed"
    assert len(ran.tool.inputs_of("start_task")) == 5
    assert ran.payloads("step.failed")[0].error.kind == "retry.exhausted"


@pytest.mark.req("MIG-03", "V2C-06", "V2C-09")
def test_case_rules_store_and_route_as_before() -> None:
    good = run_migrated("F-001-C", start_task=answer({"n": 5}), success_handler_task=lambda i, c: i["args"]["n"])
    bad = run_migrated("F-001-C", start_task=refused(500))

    assert [inputs["args"] for inputs in good.tool.inputs_of("start_case_0_sink")] == [{"n": 5}]
    assert good.tool.inputs_of("success_handler_task")[0]["args"] == {"n": 5}
    assert good.result.status == "completed"
    assert bad.tool.inputs_of("start_case_0_sink") == []
    assert "error_handler" in steps_run(bad)
    assert bad.result.status == "completed"


@pytest.mark.req("MIG-03", "V2C-21")
def test_variables_reach_the_next_step() -> None:
    rows = ToolResult(result={"data": [{"user_id": 7, "email": "a@b"}], "row_count": 1}, wrapped=True)

    ran = run_migrated("F-001-D", fetch_user_task=rows)

    assert ran.tool.inputs_of("use_it_task")[0]["args"] == {"u": 7, "e": "a@b"}
    assert ran.result.ctx == {"user_id": 7, "user_email": "a@b"}


@pytest.mark.req("MIG-03", "V2C-19", "QNT-02")
def test_polling_waits_as_before_and_stores_the_counts() -> None:
    ran = run_migrated(
        "F-001-E",
        submit_qpu_job_task={"job_id": "j1", "state": "QUEUED"},
        poll_qpu_job_task=[{"state": "QUEUED"}, {"state": "RUNNING"}, {"state": "DONE"}],
        fetch_results_task={"counts": {"00": 500, "11": 524}},
    )

    assert ran.slept == [2, 2.2]
    assert [inputs["job_id"] for inputs in ran.tool.inputs_of("poll_qpu_job_task")] == ["j1"] * 3
    assert [inputs["args"] for inputs in ran.tool.inputs_of("fetch_results_case_0_sink")] == [
        {"job_id": "j1", "counts": {"00": 500, "11": 524}}
    ]
    assert ran.result.status == "completed"


@pytest.mark.req("MIG-03", "V2C-07", "V2C-08")
@pytest.mark.parametrize(
    ("fails", "flags", "tasks", "last"),
    [
        (False, (True, True, 2000), ["send_email", "write_audit", "fraud_check"], "finalize"),
        (False, (False, False, 10), [], "finalize"),
        (True, (False, False, 10), [], "error_handler"),
    ],
)
def test_an_inclusive_case_runs_matches_in_order(
    fails: bool, flags: tuple[bool, bool, int], tasks: list[str], last: str
) -> None:
    text = migrated(fixture("F-002-B")).text
    for key, value in zip(("notify_customer: true", "requires_audit: true", "total: 2000"), flags, strict=True):
        text = text.replace(key, f"{key.split(':')[0]}: {str(value).lower()}")

    ran = run_case(text, process_order_task=ToolError("py.exception", "it broke") if fails else {"order_id": 7})

    assert [name for name, _ in ran.tool.calls] == ["process_order_task", *tasks]
    assert last in steps_run(ran)
    assert ran.result.status == "completed"


@pytest.mark.req("MIG-03", "V2C-10", "V2C-11")
def test_a_failing_task_of_a_list_stops_it_and_fails_the_step() -> None:
    good = run_migrated("F-002-D")
    bad = run_migrated("F-002-D", notify_webhook=refused(500))

    assert [name for name, _ in good.tool.calls] == ["save_order", "notify_webhook"]
    assert "confirmation" in steps_run(good)
    assert (bad.result.status, "confirmation" in steps_run(bad)) == ("failed", False)


@pytest.mark.req("MIG-03", "V2C-15")
@pytest.mark.parametrize(
    ("spec", "status", "ran_b"), [("", "failed", False), ("on_error: continue", "completed", True)]
)
def test_a_failed_call_takes_next_only_if_errors_are_tolerated(spec: str, status: str, ran_b: bool) -> None:
    text = (
        f"{HEAD}workflow:\n  - {{step: start, spec: {{{spec}}}, tool: {{kind: http, url: x}}, next: b}}\n"
        "  - {step: b, next: end}\n"
    )

    ran = run_case(migrated(text).text, start_task=refused(500))

    assert (ran.result.status, "b" in steps_run(ran)) == (status, ran_b)


EVAL = f"""{HEAD}workflow:
  - step: start
    tool:
      - fetch:
          kind: http
          url: x
          eval:
            - expr: "{{{{ outcome.error.status == 503 }}}}"
              do: retry
              attempts: 3
              backoff: exponential
              delay: 2
            - expr: "{{{{ outcome.result.data.skip }}}}"
              do: jump
              to: last
      - store: {{kind: postgres, table: t, args: {{n: "{{{{ fetch.data.n }}}}"}}}}
      - last: {{kind: python, code: "result = 1"}}
    next:
      - {{step: done, when: "{{{{ event.name == 'step.done' }}}}", args: {{n: "{{{{ event.result }}}}"}}}}
      - {{step: tidy, when: "{{{{ event.name == 'step.failed' }}}}"}}
  - {{step: done, tool: [{{show: {{kind: python, args: {{n: "{{{{ args.n }}}}"}}, code: "result = n"}}}}]}}
  - step: tidy
"""


@pytest.mark.req("MIG-02", "V2E-04")
@pytest.mark.parametrize(
    "fetched",
    [
        [answer({"n": 1})],
        [answer({"skip": True})],
        [refused(503), refused(503), answer({"n": 2})],
        [refused(503)],
        [refused(404)],  # matched by no rule: fails in v2-eval, and would go on in v10 (C-03)
    ],
)
def test_the_old_and_the_new_form_give_the_same_task_events_and_end(fetched: list[Any]) -> None:
    old = run_case(EVAL, fetch=list(fetched), last=5)
    new = run_case(migrated(EVAL).text, fetch=list(fetched), last=5)

    assert new.trace() == old.trace()
    assert (new.slept, new.tool.calls) == (old.slept, old.tool.calls)
    assert (new.result.status, new.result.ctx, steps_run(new)) == (old.result.status, old.result.ctx, steps_run(old))
    decisions: list[TaskProcessed] = new.payloads("task.processed")
    assert [one.decision.delay_s for one in decisions] == [
        one.decision.delay_s for one in old.payloads("task.processed")
    ]


WORK_OF_BOTH_KINDS = (
    HEAD
    + """\
workflow:
  - step: start
    tool: { kind: http, url: u }
    case:
      - when: "{{ event.name == 'call.done' }}"
        then:
          - summarise: { tool: { kind: python, code: result = 1, args: { n: "{{ result.n }}" } } }
          - next: { next: [{ step: end }] }
      - when: "{{ event.name == 'call.error' }}"
        then:
          - complain: { tool: { kind: python, code: result = 1 } }
          - next: { next: [{ step: end }] }
"""
)


@pytest.mark.req("MIG-03", "V2C-11")
@pytest.mark.parametrize(
    ("failing", "calls", "status"),
    [
        ((), ["start_task", "summarise"], "completed"),
        (("start_task",), ["start_task", "complain"], "completed"),
        (("summarise",), ["start_task", "summarise", "complain"], "completed"),
        (("start_task", "complain"), ["start_task", "complain"], "failed"),
        (("summarise", "complain"), ["start_task", "summarise", "complain"], "failed"),
    ],
)
def test_work_after_success_and_after_failure_runs_as_before(
    failing: tuple[str, ...], calls: list[str], status: str
) -> None:
    answers: dict[str, Any] = {"start_task": answer({"n": 1}), "summarise": {"n": 1}, "complain": {"n": 1}}
    answers |= {name: refused(500) for name in failing}
    migration = migrated(WORK_OF_BOTH_KINDS)

    old, new = run_case(WORK_OF_BOTH_KINDS, **answers), run_case(migration.text, **answers)

    assert (migration.blocked, migration.differing) == ((), ())
    assert [name for name, _ in old.tool.calls] == calls
    assert [name for name, _ in new.tool.calls] == calls
    assert (old.result.status, new.result.status) == (status, status)


@pytest.mark.req("MIG-03", "V2C-08")
@pytest.mark.parametrize(("fails", "status"), [(False, "completed"), (True, "failed")])
def test_else_is_not_taken_if_a_task_of_another_rule_fails(fails: bool, status: str) -> None:
    text = (
        HEAD
        + """\
workflow:
  - step: start
    tool: { kind: python, code: result = 1 }
    case:
      - when: "{{ event.name == 'step.exit' and response.ok }}"
        then:
          - log_ok: { tool: { kind: python, code: result = 1 } }
          - next: { next: [{ step: end }] }
      - else:
          - next: { next: [{ step: other }] }
  - step: other
    tool: { kind: python, code: result = 1 }
"""
    )
    answers: dict[str, Any] = {"start_task": {"ok": True}, "log_ok": refused(500) if fails else {"n": 1}}
    migration = migrated(text)

    old, new = run_case(text, **answers), run_case(migration.text, **answers)

    assert (migration.blocked, migration.differing) == ((), ())
    assert [name for name, _ in old.tool.calls] == [name for name, _ in new.tool.calls] == ["start_task", "log_ok"]
    assert (old.result.status, new.result.status) == (status, status)


@pytest.mark.req("MIG-03", "V2C-21")
@pytest.mark.parametrize(
    ("kept", "written", "ctx"),
    [("x: 1", "x: 5", {"x": 1}), ("y: '{{ vars.x }}'", "x: 5", {"x": 5, "y": 5})],
)
def test_vars_of_a_step_are_written_after_the_values_of_its_rule(kept: str, written: str, ctx: dict[str, int]) -> None:
    text = (
        HEAD
        + f"""\
workflow:
  - step: start
    tool: {{ kind: python, code: result = 1 }}
    vars: {{ {kept} }}
    case:
      - when: "{{{{ event.name == 'call.done' }}}}"
        then: {{ set: {{ {written} }}, next: [{{ step: end }}] }}
"""
    )

    old, new = run_case(text), run_case(migrated(text).text)

    assert (old.result.ctx, new.result.ctx) == (ctx, ctx)
