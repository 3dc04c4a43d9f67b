"""Case rules: which ones run on which event, what their `then` does, and where the step leads (V2C-04 to V2C-15)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.events.tokens import NextSelected
from tests.narrowing import payloads
from tests.playbook_runs import broken
from tests.worker.case_running import answer, called, case_text, fixture, refused, run_case, visited


@pytest.mark.req("V2C-06", "V2C-09", "V2C-24")
def test_a_response_matches_the_rule_of_its_status_and_an_error_the_other() -> None:
    good = run_case(fixture("F-001-C"), start_task=answer({"n": 5}), success_handler_task=lambda i, _: i["args"]["n"])
    bad = run_case(fixture("F-001-C"), start_task=refused(500))

    assert [inputs["args"] for inputs in good.tool.inputs_of("start_case_0_sink")] == [{"n": 5}]
    assert good.tool.inputs_of("success_handler_task")[0]["args"] == {"n": 5}
    assert (good.result.status, good.result.ctx) == ("completed", {"n": 5})
    assert called(bad) == ["start_task"]
    assert (bad.result.status, visited(bad)) == ("completed", ["start", "error_handler", "end"])


@pytest.mark.req("V2C-24", "C-19")
def test_the_worker_reports_the_decision_and_the_server_records_it() -> None:
    ran = run_case(fixture("F-001-C"), start_task=answer({"n": 5}))

    own = [event for event in ran.events if event.step == "start"]
    order = [event.event_type for event in own]
    assert order.index("case.evaluated") < order.index("next.selected")
    by = {event.event_type: event.source for event in own}
    assert (by["case.evaluated"], by["next.selected"], by["next.enqueued"]) == ("worker", "server", "server")
    selected, *_ = payloads(own, NextSelected)
    assert [(arc.step, arc.fired) for arc in selected.arcs] == [("success_handler", True)]


NAMES = {
    "when": "response.status_code == 200 and response.data.n == 1 and result.n == 1 and this.status == 'success'",
    "then": "{{ [result.n, this.status, this.result.status_code, this.data.n, response.data.n, vars.m, ctx.m] }}",
}


@pytest.mark.req("V2C-05", "C-26", "V2C-21")
def test_conditions_and_actions_read_the_response_the_payload_and_the_envelope() -> None:
    ran = run_case(
        f"""
        - step: start
          tool: {{kind: http, url: x}}
          case:
            - when: "{{{{ {NAMES["when"]} }}}}"
              then:
                set: {{m: "{{{{ result.n + 1 }}}}"}}
                next: [{{step: b, args: {{all: "{NAMES["then"]}"}}}}]
        - {{step: b, tool: {{kind: python, args: {{all: "{{{{ args.all }}}}"}}, code: x}}}}
        """,
        start_task=answer({"n": 1}),
    )

    assert ran.tool.inputs_of("b_task")[0]["args"] == {"all": [1, "success", 200, 1, 1, 2, 2]}


@pytest.mark.req("V2C-05", "TPL-07")
def test_rules_read_the_new_result_of_their_step_by_its_own_name() -> None:
    ran = run_case(
        """
        - step: start
          tool: {kind: http, url: x}
          case:
            - when: "{{ event.name == 'call.done' and start.data.n == 1 and start.status == 'success' }}"
              then:
                set: {n: "{{ start.data.n }}", code: "{{ this.status_code }}"}
                next: b
        - {step: b, next: end}
        """,
        start_task=answer({"n": 1}),
    )

    assert (ran.result.ctx, visited(ran)) == ({"n": 1, "code": 200}, ["start", "b", "end"])


@pytest.mark.req("V2C-05")
def test_the_response_of_an_error_is_its_status_and_the_error() -> None:
    ran = run_case(
        """
        - step: start
          tool: {kind: http, url: x}
          case:
            - when: "{{ response.status_code == 503 and response.error.kind == 'http.status' }}"
              then:
                set: {seen: "{{ [this.status, this.error.status, this.result, event.error.status, event.name] }}"}
                next: b
        - {step: b, next: end}
        """,
        start_task=refused(503),
    )

    assert ran.result.ctx == {"seen": ["error", 503, None, 503, "call.error"]}
    assert (ran.result.status, "b" in visited(ran)) == ("completed", True)


@pytest.mark.req("V2C-06")
@pytest.mark.parametrize("mode", ["exclusive", "inclusive"])
def test_a_rule_runs_once_for_several_events(mode: str) -> None:
    ran = run_case(
        f"""
        - step: start
          spec: {{case_mode: {mode}}}
          tool: {{kind: python, code: x}}
          case:
            - when: "{{{{ true }}}}"
              then: [{{count: {{tool: {{kind: python, code: x}}}}}}]
          next: end
        """
    )

    assert called(ran) == ["start_task", "count"]
    assert [one.on for one in ran.payloads("case.evaluated")] == ["call.done", "step.exit"]
    assert [one.rules for one in ran.payloads("case.evaluated")] == [(True,), ("fired",)]


@pytest.mark.req("V2C-06", "EVT-10", "C-13")
@pytest.mark.parametrize(
    ("name", "fails", "tasks"),
    [
        ("start", False, ["seen", "start_task"]),
        ("step.enter", False, ["seen", "start_task"]),
        ("StepStarted", False, ["seen", "start_task"]),
        ("step.started", False, ["seen", "start_task"]),
        ("call.done", False, ["start_task", "seen"]),
        ("ToolCompleted", False, ["start_task", "seen"]),
        ("task.processed", False, ["start_task", "seen"]),
        ("task.processed", True, ["start_task", "seen"]),
        ("call.done", True, ["start_task"]),
        ("call.error", True, ["start_task", "seen"]),
        ("ToolErrored", True, ["start_task", "seen"]),
        ("ToolErrored", False, ["start_task"]),
        ("step.exit", False, ["start_task", "seen"]),
        ("step.exit", True, ["start_task", "seen"]),
        ("step.done", False, ["start_task", "seen"]),
        ("step.failed", False, ["start_task"]),
        ("step.failed", True, ["start_task", "seen"]),
    ],
)
def test_an_event_matches_each_of_its_names(name: str, fails: bool, tasks: list[str]) -> None:
    ran = run_case(
        f"""
        - step: start
          tool: {{kind: python, code: x}}
          case:
            - when: "{{{{ event.name == '{name}' }}}}"
              then: [{{seen: {{tool: {{kind: python, code: x}}}}}}]
        """,
        start_task=broken() if fails else 1,
    )

    assert called(ran) == tasks


@pytest.mark.req("V2C-06")
def test_the_first_matching_rule_runs_and_later_events_match_the_others() -> None:
    ran = run_case(
        """
        - step: start
          tool: {kind: python, code: x}
          case:
            - {when: "{{ true }}", then: [{first: {tool: {kind: python, code: x}}}]}
            - {when: "{{ true }}", then: [{second: {tool: {kind: python, code: x}}}]}
            - {when: "{{ true }}", then: [{third: {tool: {kind: python, code: x}}}]}
        """
    )

    assert called(ran) == ["start_task", "first", "second"]
    assert ran.payloads("case.evaluated")[0].rules == (True, "not_evaluated", "not_evaluated")


FLAGS = ("notify_customer", "requires_audit", "total")


@pytest.mark.req("V2C-07", "V2C-08", "V2C-15")
@pytest.mark.parametrize(
    ("fails", "flags", "tasks", "last", "status"),
    [
        (False, (True, True, 2000), ["send_email", "write_audit", "fraud_check"], "finalize", "completed"),
        (False, (False, False, 10), [], "finalize", "completed"),
        (True, (False, False, 10), [], "error_handler", "completed"),
        (True, (True, False, 10), ["send_email"], None, "failed"),
    ],
)
def test_an_inclusive_case_runs_all_matches_and_else_only_without_any(
    fails: bool, flags: tuple[Any, ...], tasks: list[str], last: str | None, status: str
) -> None:
    payload = dict(zip(FLAGS, flags, strict=True))

    ran = run_case(
        fixture("F-002-B"), payload, process_order_task=broken() if fails else {"order_id": 7}, send_email=answer({})
    )

    assert called(ran) == ["process_order_task", *tasks]
    assert ran.result.status == status
    ends = [step for step in visited(ran) if step in ("finalize", "error_handler")]
    assert ends == ([last] if last else [])
    workers = {one.worker_id for one in ran.payloads("task.processed") if one.worker_id}
    assert len(workers) == 1
    assert ran.types().count("token.claimed") == len(visited(ran))


@pytest.mark.req("V2C-07")
def test_a_transition_ends_an_inclusive_evaluation() -> None:
    ran = run_case(
        """
        - step: start
          spec: {case_mode: inclusive}
          tool: {kind: python, code: x}
          case:
            - {when: "{{ true }}", then: [{a: {tool: {kind: python, code: x}}}, {next: {next: [{step: b}]}}]}
            - {when: "{{ true }}", then: [{never: {tool: {kind: python, code: x}}}]}
        - {step: b, next: end}
        """
    )

    assert called(ran) == ["start_task", "a"]
    assert visited(ran) == ["start", "b", "end"]


@pytest.mark.req("V2C-10", "V2C-24")
def test_a_task_list_runs_in_order_on_one_worker_and_reads_earlier_results() -> None:
    text = fixture("F-002-D").replace('url: "{{ webhook_url }}"', 'url: "{{ save_order.result.id }}"')

    ran = run_case(text, save_order={"id": "x1"}, notify_webhook=answer({}))

    assert called(ran) == ["save_order", "notify_webhook"]
    assert ran.tool.inputs_of("notify_webhook")[0]["url"] == "x1"
    assert visited(ran) == ["start", "confirmation", "end"]
    assert len({one.worker_id for one in ran.payloads("task.processed") if one.task != "start_task"}) == 1


@pytest.mark.req("V2C-11", "V2C-15")
def test_a_failing_task_ends_its_list_and_fails_the_step_if_unhandled() -> None:
    text = fixture("F-002-D")
    rule = "      - when: \"{{ event.name == 'call.error' and response.status_code == 500 }}\"\n"
    handled = text.replace(
        "\n  - step: confirmation", f"\n{rule}        then: {{next: [{{step: tidy}}]}}\n  - step: confirmation"
    )
    handled += "  - {step: tidy, next: end}\n"

    bad = run_case(text, notify_webhook=refused(500))
    caught = run_case(handled, notify_webhook=refused(500))

    assert (bad.result.status, visited(bad)) == ("failed", ["start"])
    assert bad.result.error is not None
    assert bad.result.error.kind == "http.status"
    assert (caught.result.status, visited(caught)) == ("completed", ["start", "tidy", "end"])


@pytest.mark.req("V2C-11")
def test_the_tasks_after_a_failing_one_never_run() -> None:
    ran = run_case(
        """
        - step: start
          spec: {case_mode: inclusive}
          tool: {kind: python, code: x}
          case:
            - when: "{{ event.name == 'call.done' }}"
              then:
                - a: {tool: {kind: python, code: x}}
                - b: {tool: {kind: python, code: x}}
                - c: {tool: {kind: python, code: x}}
            - {when: "{{ event.name == 'call.done' }}", then: [{d: {tool: {kind: python, code: x}}}]}
            - when: "{{ event.name == 'call.error' }}"
              then: [{e: {tool: {kind: python, args: {m: "{{ response.error.message }}"}, code: x}}}]
        """,
        b=broken(message="b broke"),
    )

    assert called(ran) == ["start_task", "a", "b", "e"]
    assert ran.tool.inputs_of("e")[0]["args"] == {"m": "b broke"}
    assert ran.result.status == "failed", "no rule took a transition"


@pytest.mark.req("V2C-12", "C-09")
def test_a_transition_with_several_targets_forks_and_a_false_guard_skips_it() -> None:
    ran = run_case(
        """
        - step: start
          tool: {kind: python, code: x}
          case:
            - when: "{{ event.name == 'call.done' }}"
              then:
                - next: {spec: {guard: "{{ result.n > 9 }}"}, next: [{step: a}]}
                - next: {next: [{step: b}, {step: c}]}
        - {step: a, next: end}
        - {step: b, tool: {kind: python, code: x}}
        - step: c
          tool: {kind: python, code: x}
          case:
            - {when: "{{ event.name == 'call.done' }}", then: [{next: {tool: {kind: next, step: d}}}]}
        - {step: d, next: end}
        """,
        start_task={"n": 5},
    )

    assert sorted(visited(ran)) == ["b", "c", "d", "end", "start"]
    assert ran.result.status == "completed"


@pytest.mark.req("V2C-14")
def test_a_step_without_its_own_tool_is_driven_by_its_rules() -> None:
    ran = run_case(fixture("F-002-G2"), compute={"ok": True})

    assert called(ran) == ["compute"]
    assert visited(ran) == ["start", "process", "end"]
    assert [one.on for one in ran.payloads("case.evaluated")] == ["step.enter", "call.done"]


@pytest.mark.req("V2C-14")
@pytest.mark.parametrize(("mode", "tasks"), [("on_entry", ["start_task", "a"]), ("on_event", ["start_task", "a", "b"])])
def test_responses_of_other_tasks_are_events_only_in_on_event_mode(mode: str, tasks: list[str]) -> None:
    ran = run_case(
        f"""
        - step: start
          spec: {{eval_mode: {mode}}}
          tool: {{kind: python, code: x}}
          case:
            - {{when: "{{{{ event.name == 'call.done' }}}}", then: [{{a: {{tool: {{kind: python, code: x}}}}}}]}}
            - {{when: "{{{{ event.name == 'call.done' }}}}", then: [{{b: {{tool: {{kind: python, code: x}}}}}}]}}
          next: end
        """
    )

    assert called(ran) == tasks


@pytest.mark.req("V2C-15", "C-42", "O-19")
@pytest.mark.parametrize("rules", ["", '\n          case: [{when: "{{ false }}", then: {next: c}}]'])
@pytest.mark.parametrize(
    ("spec", "status", "ran_b"), [("", "failed", False), ("on_error: continue", "completed", True)]
)
def test_an_unhandled_error_fails_the_step_unless_it_continues(rules: str, spec: str, status: str, ran_b: bool) -> None:
    ran = run_case(
        f"""
        - step: start
          spec: {{{spec}}}
          tool: {{kind: python, code: x}}{rules}
          next: b
        - {{step: b, next: end}}
        - {{step: c, next: end}}
        """,
        start_task=broken(),
    )

    assert (ran.result.status, "b" in visited(ran)) == (status, ran_b)


@pytest.mark.req("V2C-04")
def test_next_is_taken_without_a_deciding_rule_and_forks() -> None:
    steps = """
        - step: start
          tool: {kind: python, code: x}
          case: [{when: "{{ response.go }}", then: {next: c}}]
          next: [{step: a, args: {n: "{{ result.n }}"}}, b]
        - {step: a, tool: {kind: python, args: {n: "{{ args.n }}"}, code: x}}
        - {step: b, next: end}
        - {step: c, next: end}
        """
    plain, decided = run_case(steps, start_task={"n": 1}), run_case(steps, start_task={"go": True})

    assert sorted(visited(plain)) == ["a", "b", "end", "start"]
    assert plain.tool.inputs_of("a_task")[0]["args"] == {"n": 1}
    assert visited(decided) == ["start", "c", "end"]


@pytest.mark.req("V2C-25", "C-27")
@pytest.mark.parametrize(
    "leads",
    [
        'case: [{when: "{{ event.name == \'call.done\' }}", then: {next: [{step: "{{ result.to }}"}]}}]',
        'next: [{step: "{{ result.to }}"}]',
    ],
    ids=["rule", "shortcut"],
)
@pytest.mark.parametrize(("to", "kind"), [("b", None), ("nowhere", "route.target"), (3, "route.target")])
def test_a_computed_target_must_name_a_step(leads: str, to: Any, kind: str | None) -> None:
    ran = run_case(
        f"""
        - step: start
          tool: {{kind: python, code: x}}
          {leads}
        - {{step: b, next: end}}
        """,
        start_task={"to": to},
    )

    assert (ran.result.error.kind if ran.result.error else None) == kind
    assert ("b" in visited(ran)) is (kind is None)


@pytest.mark.req("V2C-26")
def test_args_of_a_transition_are_rendered_when_it_is_taken() -> None:
    """`vars` of the step are written after its rules on the call have run (O-29), and its transitions see them."""
    ran = run_case(
        """
        - step: start
          tool: {kind: python, code: x}
          vars: {n: "{{ result.n }}"}
          case:
            - when: "{{ event.name == 'call.done' }}"
              then:
                set: {m: 1}
                next: [{step: b, args: {n: "{{ vars.n }}", m: "{{ vars.m }}", e: "{{ event.name }}"}}]
        - {step: b, tool: {kind: python, args: {all: "{{ args }}"}, code: x}}
        """,
        start_task={"n": 7},
    )

    assert ran.tool.inputs_of("b_task")[0]["args"] == {"all": {"n": 7, "m": 1, "e": "call.done"}}
    assert [token.args for token in ran.payloads("token.created")][-1] == {"n": 7, "m": 1, "e": "call.done"}


@pytest.mark.req("TPL-04", "TPL-09")
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('{when: "{{ nope }}", spec: {eval: strict}, then: {next: b}}', "when of case rule 0"),
        ('{when: "{{ 1 / 0 }}", then: {next: b}}', "when of case rule 0"),
        ('{when: "{{ true }}", then: {set: {a: "{{ nope + 1 }}"}, next: b}}', "set of case rule 0"),
        ('{when: "{{ true }}", then: {next: [{step: b, args: {a: "{{ nope + 1 }}"}}]}}', "next of case rule 0"),
        ('{when: "{{ true }}", then: [{next: {spec: {guard: "{{ nope + 1 }}"}, next: [{step: b}]}}]}', "guard of case"),
    ],
)
def test_a_failing_template_fails_the_step_and_names_the_place(rule: str, said: str) -> None:
    ran = run_case(
        f"""
        - step: start
          tool: {{kind: python, code: x}}
          case: [{rule}]
        - {{step: b, next: end}}
        """
    )

    assert ran.result.error is not None
    assert ran.result.error.kind == "template.error"
    assert said in ran.result.error.message
    assert visited(ran) == ["start"]


@pytest.mark.req("TPL-04")
def test_a_lenient_condition_treats_undefined_names_as_false() -> None:
    ran = run_case(
        """
        - step: start
          tool: {kind: python, code: x}
          case: [{when: "{{ workload.nope.deeper }}", then: {next: b}}]
          next: end
        - {step: b, next: end}
        """
    )

    assert visited(ran) == ["start", "end"]


@pytest.mark.req("TPL-04")
@pytest.mark.parametrize(("cache", "tasks"), [("true", ["start_task"]), ("false", ["start_task", "late"])])
def test_a_cached_condition_keeps_its_first_value(cache: str, tasks: list[str]) -> None:
    ran = run_case(
        f"""
        - step: start
          tool: {{kind: python, code: x}}
          case:
            - when: "{{{{ event.name == 'step.exit' }}}}"
              spec: {{cache: {cache}}}
              then: [{{late: {{tool: {{kind: python, code: x}}}}}}]
        """
    )

    assert called(ran) == tasks


@pytest.mark.req("V2C-03")
def test_args_of_the_step_are_overridden_by_those_of_its_tool() -> None:
    ran = run_case(
        """
        - step: start
          args: {a: 1, b: 1}
          tool: {kind: python, args: {b: 2}, code: "result = a + b"}
          case: [{when: "{{ true }}", then: {set: {n: "{{ args.a }}"}}}]
        """,
        start_task=lambda inputs, context: [context.name("a"), inputs["args"]["b"]],
    )

    assert (ran.result.result, ran.result.ctx) == ([1, 2], {"n": 1})


@pytest.mark.req("V2C-03")
@pytest.mark.parametrize(("loop", "a"), [("", 5), ("loop: {in: [7], iterator: x, mode: sequential}", 7)])
def test_args_of_the_token_override_those_of_the_step(loop: str, a: int) -> None:
    """As in every dialect (design.md §8): the tool and its templates see the same. Only what may read the iteration is
    the step's own there."""
    ran = run_case(
        f"""
        - {{step: start, next: [{{step: work, args: {{a: 5, b: 6}}}}]}}
        - step: work
          {loop or "desc: x"}
          args: {{a: "{{{{ x | default(1) }}}}", b: 2, c: 3}}
          tool: {{kind: python, args: {{read: "{{{{ args.b }}}}"}}, code: x}}
          next: end
        """,
        work_task=lambda inputs, context: inputs["args"],
    )

    assert ran.tool.inputs_of("work_task")[0]["args"] == {"a": a, "b": 6, "c": 3, "read": 6}


@pytest.mark.req("PIPE-09", "V2C-14")
def test_the_result_of_a_step_is_that_of_its_call_or_else_its_last_task() -> None:
    own = run_case(
        """
        - step: start
          tool: {kind: python, code: x}
          case: [{when: "{{ true }}", then: [{a: {tool: {kind: python, code: x}}}]}]
        """,
        start_task=1,
        a=2,
    )
    without = run_case(
        '- {step: start, case: [{when: "{{ true }}", then: [{a: {tool: {kind: python, code: x}}}]}]}', a=2
    )

    assert (own.result.result, without.result.result) == (1, 2)


@pytest.mark.req("V2C-27", "WRK-02")
def test_a_list_of_a_thousand_tasks_runs_under_one_lease() -> None:
    tasks = "".join(f"          - t{number}: {{tool: {{kind: noop}}}}\n" for number in range(1000))
    text = case_text(
        "- step: start\n  tool: {kind: noop}\n  case:\n    - when: \"{{ event.name == 'call.done' }}\"\n      then:\n"
    )

    ran = run_case(text + tasks)

    assert ran.types().count("task.processed") == 1001
    assert ran.types().count("token.claimed") == 1
    assert ran.result.status == "completed"


@pytest.mark.req("V2C-26", "RES-03", "KEY-06")
def test_the_start_event_of_a_task_contains_its_rendered_args() -> None:
    ran = run_case(fixture("F-002-E"), process_task=lambda inputs, _: {"processed": inputs["args"]["order_id"]})
    large = run_case(fixture("F-002-E"), {"order_id": "x" * 70_000}, process_task=1)

    assert ran.payloads("step.done")[1].result.result == {"processed": 42}
    assert [one.args for one in ran.payloads("task.started")] == [{"order_id": 42}]
    assert large.payloads("task.started")[0].args is None
    assert large.payloads("task.started")[0].args_ref.size > 70_000


@pytest.mark.req("V2C-26", "TPL-09")
def test_a_task_whose_inputs_cannot_be_rendered_has_a_start_event_too() -> None:
    ran = run_case('- {step: start, tool: {kind: python, args: {a: "{{ nope + 1 }}"}, code: x}}')

    assert [event for event in ran.types() if event.startswith("task.")] == ["task.started", "task.processed"]
    assert ran.result.error is not None
    assert ran.result.error.kind == "template.error"


@pytest.mark.req("V2C-06", "V2C-23", "LOOP-09")
def test_a_rule_on_the_end_of_the_loop_fires_once_and_reads_its_result() -> None:
    ran = run_case(
        """
        - step: start
          loop: {in: "{{ [1, 2] }}", iterator: n, mode: sequential}
          tool: {kind: python, code: x}
          case:
            - when: "{{ event.name == 'loop.done' and loop.failed == 0 }}"
              then:
                set: {total: "{{ loop.total }}"}
                next: [{step: b, args: {first: "{{ loop.results[0] }}", total: "{{ vars.total }}"}}]
          next: c
        - {step: b, tool: {kind: noop, args: {got: "{{ args }}"}}, next: end}
        - {step: c, next: end}
        """,
        start_task="done",
    )

    assert visited(ran) == ["start", "b", "end"]
    assert ran.result.ctx["total"] == 2
    assert next(one.args for one in ran.payloads("step.scheduled") if "first" in one.args) == {
        "first": "done",
        "total": 2,
    }


@pytest.mark.req("V2C-06")
@pytest.mark.parametrize(
    ("name", "times"), [("loop.iteration.started", 2), ("loop.iteration.done", 2), ("LoopIterationCompleted", 2)]
)
def test_a_rule_on_an_iteration_fires_in_each(name: str, times: int) -> None:
    ran = run_case(
        f"""
        - step: start
          loop: {{in: "{{{{ [1, 2] }}}}", iterator: n, mode: sequential}}
          tool: {{kind: python, code: x}}
          case: [{{when: "{{{{ event.name == '{name}' }}}}", then: [{{note: {{tool: {{kind: python, code: x}}}}}}]}}]
          next: end
        """
    )

    assert [task for task, _ in ran.trace()].count("note") == times


@pytest.mark.req("V2C-06", "V2C-15")
def test_a_rule_on_a_failed_iteration_fires_for_that_one() -> None:
    ran = run_case(
        """
        - step: start
          loop: {in: "{{ [1, 2] }}", iterator: n, mode: sequential}
          spec: {on_error: continue}
          tool: {kind: python, code: x}
          case: [{when: "{{ event.name == 'loop.iteration.failed' }}", then: [{note: {tool: {kind: python, code: x}}}]}]
          next: end
        """,
        start_task=[broken(), 2],
    )

    assert [task for task, _ in ran.trace()].count("note") == 1
