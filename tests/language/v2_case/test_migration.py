"""v2-case, construct by construct."""

from __future__ import annotations

import pytest

from noetl.language.v2_case.migration.guards import DONE, ERROR, EXIT
from tests.language.migrating.migrated import HEAD, compiled, document, fixture, migrated, steps_of

END = {"arcs": [{"step": "end"}]}
ANY_END = "{{ event.name in ['step.done', 'step.failed'] }}"


@pytest.mark.req("MIG-03", "V2C-21")
def test_vars_become_set_ctx_of_the_step() -> None:
    text = migrated(fixture("F-001-D")).text

    assert 'user_id: "{{ fetch_user.data[0].user_id }}"' in text
    assert 'args: { u: "{{ ctx.user_id }}", e: "{{ ctx.user_email }}" }' in text
    assert text.rstrip().endswith("- step: end")


@pytest.mark.req("MIG-03", "V2C-16", "V2C-19")
def test_polling_becomes_a_retry_rule_with_the_same_delays() -> None:
    """2 and 2.2 seconds: v10 doubles, so another factor is written out. Running out ends with the last response."""
    text = migrated(fixture("F-001-E")).text

    assert "when: \"{{ outcome.result.state in ['QUEUED','RUNNING'] }}\"" in text
    assert 'delay: "{{ 2 * 1.1 ** (_attempt - 1) }}"' in text
    assert "on_exhausted: continue" in text
    assert "when: \"{{ event.name == 'step.done' and event.result.state == 'DONE' }}\"" in text


@pytest.mark.req("MIG-03", "O-08")
@pytest.mark.parametrize(("target", "kept"), [("end", True), ("work", False)])
def test_a_step_before_a_bare_end_keeps_its_result(target: str, kept: bool) -> None:
    """It is the execution's, and a sink behind the call would put its reference there."""
    sink = "sink: {tool: {kind: postgres, auth: pg, table: t}, args: {n: 1}}"
    steps = steps_of(
        f"""
        - {{step: start, tool: {{kind: http, url: x}}, {sink}, next: {target}}}
        - {{step: work, tool: {{kind: noop}}}}
        """
    )

    last = steps["start"]["tool"][-1]
    assert (last.get("args", {}) != {"n": 1}) is kept


@pytest.mark.req("MIG-03", "V2C-20")
@pytest.mark.parametrize(
    ("rows", "data"),
    [
        ('"{{ result.rows }}"', "{{ start_task.data.rows }}"),
        ('[{n: "{{ result.n }}"}, {n: 2}]', [{"n": "{{ start_task.data.n }}"}, {"n": 2}]),
        ("\n            - n: 1\n            - n: 2", [{"n": 1}, {"n": 2}]),
    ],
)
def test_the_rows_of_a_sink_are_migrated(rows: str, data: object) -> None:
    steps = steps_of(
        f"""
        - step: start
          tool: {{kind: http, url: x}}
          sink:
            tool: {{kind: postgres, auth: pg, table: t}}
            args: {rows}
          next: end
        """
    )

    assert steps["start"]["tool"][1]["args"] == data


@pytest.mark.req("MIG-03", "V2C-06")
def test_an_exit_rule_with_next_applies_after_a_failure_too() -> None:
    steps = steps_of(
        """
        - step: start
          tool: {kind: http, url: x}
          case:
            - when: "{{ event.name == 'step.exit' }}"
              then: {set: {how: "{{ this.status }}"}, next: end}
        """
    )

    written = {"how": "{{ start.status }}"}
    assert steps["start"]["next"]["arcs"] == [{"step": "end", "when": ANY_END, "set_ctx": written}]


@pytest.mark.req("MIG-03", "O-11")
@pytest.mark.parametrize("anchor", ["", "&it "])
def test_a_key_named_code_is_code_only_in_a_task(anchor: str) -> None:
    """Elsewhere it is data: a status, a country, a currency."""
    text = f"""{HEAD}workload: {{it: {anchor}x, {"other: *it" if anchor else "other: x"}}}
workflow:
  - step: start
    tool: {{kind: http, url: x, json: {{code: "{{{{ vars.country }}}}"}}}}
    vars: {{code: "{{{{ result.code }}}}"}}
    next: [{{step: b, args: {{code: "{{{{ vars.code }}}}"}}}}]
  - {{step: b, tool: {{kind: python, code: 'result = "{{{{ vars.code }}}}"'}}}}
"""
    start, second = document(migrated(text).text)["workflow"]

    assert start["tool"]["json"] == {"code": "{{ ctx.country }}"}
    assert start["set_ctx"] == {"code": "{{ start.data.code }}"}
    assert start["next"]["arcs"][0]["args"] == {"code": "{{ ctx.code }}"}
    assert second["tool"]["code"] == 'result = "{{ vars.code }}"'


@pytest.mark.req("MIG-03", "V2C-01", "C-12")
def test_identity_moves_under_metadata() -> None:
    text = "apiVersion: noetl.io/v2\nkind: Playbook\nname: a  # mine\npath: x/a\nworkflow: [{step: start, next: end}]\n"

    new = migrated(text).text

    assert "metadata:\n  name: a  # mine\n  path: x/a\n" in new


@pytest.mark.req("MIG-01")
def test_a_declared_dialect_is_removed() -> None:
    text = HEAD.replace("tests/t", "tests/t, dialect: v2-case") + "workflow: [{step: start, next: end}]\n"

    assert "dialect" not in migrated(text).text


@pytest.mark.req("MIG-03", "V2C-18", "C-16")
@pytest.mark.parametrize(
    ("retry", "then"),
    [
        ("{max_attempts: 3, delay: 10, spec: {mode: linear}}", {"backoff": "linear", "delay": 10}),
        ("{max_attempts: 3, delay: 10, spec: {mode: fixed}}", {"delay": 10}),
        ("{max_attempts: 3, delay: 10}", {"backoff": "exponential", "delay": 10}),
        ("{max_attempts: 3, delay: 1m, spec: {backoff_base: 3}}", {"delay": "{{ 60 * 3 ** (_attempt - 1) }}"}),
        ("{max_attempts: 3}", {}),
        (
            "{max_attempts: 3, spec: {on_exhausted: continue, jitter: true}}",
            {"jitter": True, "on_exhausted": "continue"},
        ),
    ],
)
def test_a_retry_mapping_becomes_a_rule_on_errors(retry: str, then: dict[str, object]) -> None:
    steps = steps_of(f"- {{step: start, tool: {{kind: noop}}, retry: {retry}, next: end}}")

    first, last = steps["start"]["tool"]["spec"]["policy"]["rules"]
    assert first == {"when": "{{ outcome.status == 'error' }}", "then": {"do": "retry", "attempts": 3, **then}}
    assert last == {"when": "{{ outcome.status == 'error' }}", "then": {"do": "fail"}}


@pytest.mark.req("MIG-03", "V2C-16")
def test_a_condition_on_neither_error_nor_response_applies_to_both() -> None:
    retry = "[{when: '{{ status_code == 202 }}', then: {max_attempts: 3}}]"
    steps = steps_of(f"- {{step: start, tool: {{kind: http, url: x}}, retry: {retry}, next: end}}")

    rules = steps["start"]["tool"]["spec"]["policy"]["rules"]
    assert [rule["when"] for rule in rules] == [
        "{{ outcome.status == 'error' and (outcome.http.status == 202) }}",
        "{{ outcome.status == 'success' and (outcome.http.status == 202) }}",
        "{{ outcome.status == 'error' }}",
    ]
    assert rules[1]["then"]["on_exhausted"] == "continue"


@pytest.mark.req("MIG-03", "V2C-17", "O-28")
def test_pagination_becomes_a_jump_back_with_the_collected_values() -> None:
    text = migrated(fixture("F-001-B")).text
    tasks = {task.name: task for task in compiled(text)[0].steps[0].tasks}

    assert list(tasks) == [
        "start_task_first",
        "start_task",
        "start_retry_1_sink",
        "start_task_more",
        "start_task_collected",
    ]
    assert 'params: { page: "{{ iter.page }}" }' in text
    assert 'when: "{{ iter.calls < 100 and start_task.result.data.has_more }}"' in text
    assert 'pages: "{{ iter.pages + (outcome.result.data.items if outcome.result.data.items is sequence' in text
    assert 'set_ctx: { all_items: "{{ start.data.pages }}" }' in text


@pytest.mark.req("MIG-03", "V2C-20", "V2C-03", "O-29")
def test_a_sink_becomes_a_storing_task_and_the_result_stays_that_of_the_call() -> None:
    steps = steps_of(
        """
        - step: start
          args: {a: 1}
          tool: {kind: python, args: {b: 2}, code: "result = a + b"}
          sink: {tool: {kind: postgres, table: t}, args: {x: "{{ result }}"}}
          vars: {sum: "{{ result }}"}
          next: b
        - {step: b, tool: {kind: noop, args: {s: "{{ start.data }}"}}, next: end}
        """
    )

    call, sink, kept, result = steps["start"]["tool"]
    assert call["args"] == {"a": "{{ args.a }}", "b": 2}
    assert sink == {"name": "start_sink", "kind": "postgres", "table": "t", "args": {"x": "{{ start_task.data }}"}}
    assert kept["spec"]["policy"]["rules"][0]["else"]["then"] == {"set_ctx": {"sum": "{{ start_task.data }}"}}
    assert result == {"name": "start_result", "kind": "noop", "args": "{{ start_task.data }}"}


@pytest.mark.req("MIG-03", "V2C-06", "V2C-05")
def test_rules_with_next_become_guarded_arcs() -> None:
    steps = steps_of(
        """
        - step: start
          tool: {kind: http, url: x}
          case:
            - when: "{{ event.name == 'step.exit' and vars.late }}"
              then: {next: late}
            - when: "{{ event.name == 'call.done' and response.status_code == 200 and response.data.n > 1 }}"
              then: {next: [{step: a, args: {n: "{{ result.n }}"}}]}
            - when: "{{ event.name == 'call.error' and response.status_code == 404 }}"
              then: [{next: {spec: {delay: 5s, guard: "{{ vars.go }}"}, next: b}}]
            - else: [{next: {next: b}}]
        - {step: a, next: end}
        - {step: b, next: end}
        - {step: late, next: end}
        """
    )

    done = "event.name == 'step.done' and start.result.status_code == 200 and event.result.n > 1"
    exit_ = "event.name in ['step.done', 'step.failed'] and ctx.late"
    error = "event.name == 'step.failed' and event.error.status == 404"
    assert steps["start"]["next"]["arcs"] == [
        {"step": "a", "when": f"{{{{ {done} }}}}", "args": {"n": "{{ event.result.n }}"}},
        {"step": "b", "when": f"{{{{ {error} and ctx.go }}}}", "spec": {"delay": "5s"}},
        {"step": "late", "when": f"{{{{ {exit_} }}}}"},
        {"step": "b", "when": f"{{{{ not ({exit_}) and not ({done}) and not ({error}) }}}}"},
    ]


@pytest.mark.req("MIG-03", "V2C-10", "V2C-11")
def test_tasks_after_every_successful_call_are_appended_to_the_pipeline() -> None:
    steps = steps_of(
        """
        - step: start
          tool: {kind: noop}
          case:
            - when: "{{ event.name == 'call.done' }}"
              then:
                - save: {tool: {kind: postgres, table: t}}
                - tell: {tool: {kind: http, url: "{{ save.result }}/{{ result.n }}"}}
                - next: {next: a}
            - when: "{{ event.name == 'call.error' }}"
              then: {next: b}
        - {step: a, next: end}
        - {step: b, next: end}
        """
    )

    assert [task["name"] for task in steps["start"]["tool"]] == ["start_task", "save", "tell"]
    assert steps["start"]["tool"][2]["url"] == "{{ save.result }}/{{ start_task.data.n }}"
    assert [(arc["step"], arc["when"]) for arc in steps["start"]["next"]["arcs"]] == [
        ("a", "{{ event.name == 'step.done' }}"),
        ("b", "{{ event.name == 'step.failed' }}"),
    ]


@pytest.mark.req("MIG-03", "V2C-09", "V2C-11")
def test_conditional_tasks_with_next_become_a_step() -> None:
    steps = steps_of(
        """
        - step: start
          tool: {kind: http, url: x}
          case:
            - when: "{{ event.name == 'call.done' and response.status_code == 200 }}"
              then:
                sink: {tool: {kind: postgres, table: ok}, args: {n: "{{ result.n }}", a: "{{ args.a }}"}}
                set: {n: "{{ result.n }}"}
                next: a
        - step: a
          tool: {kind: http, url: x}
          case:
            - when: "{{ event.name == 'call.error' }}"
              then: [{log: {tool: {kind: http, url: "{{ response.error.kind }}"}}}]
        """
    )

    assert steps["start"]["next"]["arcs"] == [
        {
            "step": "start_done",
            "when": "{{ event.name == 'step.done' and start.result.status_code == 200 }}",
            "args": {"a": "{{ args.a }}"},
        },
    ]
    assert steps["a"]["next"]["arcs"] == [
        {"step": "a_error", "when": "{{ event.name == 'step.failed' }}", "args": {"error": "{{ event.error }}"}}
    ]
    assert steps["start_done"] == {
        "tool": [
            {
                "name": "start_case_0_sink",
                "kind": "postgres",
                "table": "ok",
                "args": {"n": "{{ start.data.n }}", "a": "{{ args.a }}"},
            }
        ],
        "set_ctx": {"n": "{{ start.data.n }}"},
        "next": {"arcs": [{"step": "a"}]},
    }
    log, fail = steps["a_error"]["tool"]
    assert log["url"] == "{{ args.error.kind }}"
    assert fail["spec"]["policy"]["rules"] == [{"else": {"then": {"do": "fail", "error": "{{ args.error }}"}}}]


@pytest.mark.req("MIG-03", "V2C-07", "V2C-08")
def test_several_inclusive_rules_with_tasks_become_a_pipeline_with_jumps() -> None:
    """When one of them fails, the others are out and else is not taken: neither choose nor arcs can tell."""
    text = migrated(fixture("F-002-B")).text
    start = compiled(text)[0].steps[1]

    turns = [f"process_order_rules_{number}" for number in (1, 2, 3)]
    tasks = [task.name for task in start.tasks if task.name not in ("process_order_then", "process_order_else")]
    assert [name for name in tasks if name in turns] == turns
    assert tasks[:2] == ["process_order_task", "process_order_rules"]
    assert start.router is not None
    assert [arc.target.value for arc in start.router.arcs] == ["finalize", "error_handler"]


@pytest.mark.req("MIG-03", "V2C-04", "C-09")
def test_several_targets_fork_and_alternatives_exclude_each_other() -> None:
    steps = steps_of(
        """
        - step: start
          tool: {kind: noop}
          case:
            - when: "{{ event.name == 'call.done' and vars.two }}"
              then: {next: [a, b]}
          next: [b]
        - {step: a, next: end}
        - {step: b, next: [a, end]}
        """
    )

    both = "event.name == 'step.done' and ctx.two"
    assert steps["start"]["next"] == {
        "spec": {"mode": "inclusive"},
        "arcs": [
            {"step": "a", "when": f"{{{{ {both} }}}}"},
            {"step": "b", "when": f"{{{{ {both} }}}}"},
            {"step": "b", "when": f"{{{{ event.name != 'step.failed' and not ({both}) }}}}"},
        ],
    }
    assert steps["b"]["next"] == {"spec": {"mode": "inclusive"}, "arcs": [{"step": "a"}, {"step": "end"}]}


@pytest.mark.req("MIG-03", "V2C-25", "C-27")
def test_a_computed_target_becomes_one_arc_per_name() -> None:
    """A failure must not take the guarded one: v2-case's next is not taken by failures (V2C-15)."""
    steps = steps_of(
        """
        - {step: start, tool: {kind: noop}, next: "{{ 'a' if vars.x else 'end' }}"}
        - {step: a, next: end}
        """
    )

    assert steps["start"]["next"]["arcs"] == [
        {"step": "a", "when": "{{ event.name != 'step.failed' and ctx.x }}"},
        {"step": "end"},
    ]


@pytest.mark.req("MIG-03", "V2C-15", "C-42", "C-30")
def test_tolerated_errors_and_timeouts_are_migrated() -> None:
    steps = steps_of(
        """
        - step: start
          spec: {on_error: continue, timeout: 90s, case_mode: inclusive}
          tool: {kind: noop}
          next: end
        """
    )

    assert steps["start"]["spec"]["policy"] == {"lifecycle": {"timeout_s": 90}, "failure": {"mode": "best_effort"}}
    assert steps["start"]["next"] == {"spec": {"unguarded": "always"}, **END}


@pytest.mark.req("MIG-03", "V2C-22", "V2C-23", "C-08")
def test_a_loop_is_rewritten_and_its_rules_run_per_iteration() -> None:
    steps = steps_of(
        """
        - step: start
          loop: {collection: "{{ workload.xs }}", element: x, spec: {mode: parallel, batch_size: 3, on_error: continue}}
          tool: {kind: http, url: "{{ x }}"}
          case:
            - when: "{{ event.name == 'call.done' and response.data.big }}"
              then: {sink: {tool: {kind: postgres, table: t}, args: {v: "{{ result }}"}}}
          next: end
        """
    )

    assert steps["start"]["loop"] == {
        "in": "{{ workload.xs }}",
        "iterator": "x",
        "spec": {"mode": "parallel", "max_in_flight": 3},
    }
    assert steps["start"]["spec"]["policy"]["failure"] == {"mode": "best_effort"}
    _, choose, _ = steps["start"]["tool"]
    assert choose["choose"][0]["when"] == "{{ start_task.result.data.big }}"
    assert choose["choose"][0]["then"][0]["args"] == {"v": "{{ start_task.data }}"}


@pytest.mark.req("MIG-03", "V2C-06")
def test_a_rule_that_is_always_true_applies_to_failures_too() -> None:
    """A v10 arc without a guard would not (ROUTE-05)."""
    steps = steps_of("- {step: start, tool: {kind: noop}, case: [{when: true, then: {next: end}}]}")

    assert steps["start"]["next"]["arcs"] == [
        {"step": "end", "when": "{{ event.name in ['step.done', 'step.failed'] }}"}
    ]


@pytest.mark.req("MIG-03", "V2C-23")
def test_an_iteration_rule_with_next_sets_a_ctx_key_for_the_arcs() -> None:
    """One that failed is done then, and the loop goes on."""
    steps = steps_of(
        "- {step: start, loop: {in: [1], iterator: x}, tool: {kind: noop}, case: [{when: true, then: {next: end}}]}"
    )

    assert steps["start"]["next"]["arcs"] == [
        {
            "step": "end",
            "when": "{{ event.name == 'loop.done' and ctx.start_leads_1 }}",
            "set_ctx": {"start_leads_1": None},
        }
    ]


@pytest.mark.req("MIG-03", "V2C-06")
def test_a_condition_excludes_the_rules_before_it() -> None:
    steps = steps_of(
        """
        - step: start
          tool: {kind: http, url: x}
          case:
            - when: "{{ event.name == 'call.done' and vars.quiet }}"
              then: [{log: {tool: {kind: noop}}}]
            - when: "{{ event.name == 'call.done' }}"
              then: {next: end}
          next: b
        - {step: b, next: end}
        """
    )

    _, log, _ = steps["start"]["tool"]
    assert log["choose"][0]["when"] == "{{ ctx.quiet }}"
    guard = "event.name == 'step.done' and not (event.name == 'step.done' and ctx.quiet)"
    assert steps["start"]["next"]["arcs"] == [{"step": "end", "when": f"{{{{ {guard} }}}}"}, {"step": "b"}]


@pytest.mark.req("MIG-03")
@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("{step: s, tool: {kind: noop}, case: [{when: true, then: {retry: {max_attempts: 2}, next: end}}]}", "retries"),
        ("{step: s, next: '{{ vars.where }}'}", "computed"),
        ("{step: s, case: [{when: '{{ a }}', spec: {eval: strict}, then: {next: end}}]}", "strict"),
        ("{step: my step, tool: {kind: noop}, vars: {a: '{{ result }}'}, next: end}", "by its name"),
        (
            "{step: s, tool: {kind: http, url: x}, case: [{when: '{{ response.error }}', then: {next: end}}]}",
            "without saying of which event",
        ),
        (
            "{step: s, loop: {in: [1], iterator: x}, tool: {kind: noop}, case: [{when: '{{ a }}', then: *t}]}".replace(
                "*t", "{next: [{step: end, args: {x: '{{ x }}'}}]}"
            ),
            "per iteration",
        ),
        (
            "{step: s, signal: {name: a}, case: [{when: *x, then: [{a: {tool: {kind: noop}}}]}]}".replace(
                "*x", "\"{{ event.name == 'signal.received' }}\""
            ),
            "lead nowhere",
        ),
        (
            "{step: s, tool: {kind: noop}, retry: *r, case: [{when: true, then: {next: end}}]}".replace(
                "*r", "{max_attempts: 2, spec: {on_exhausted: continue}}"
            ),
            "on_exhausted",
        ),
    ],
)
def test_constructs_without_a_v10_form_are_reported_with_a_suggestion(step: str, words: str) -> None:
    migration = migrated(f"{HEAD}workflow:\n  - {{step: start, next: end}}\n  - {step}\n")

    assert [item for item in migration.blocked if words in item.message], migration.blocked
    assert all(item.way_out and item.span.line for item in migration.blocked)


@pytest.mark.req("MIG-03")
def test_meaningless_keys_become_comments_with_a_note() -> None:
    migration = migrated(f"{HEAD}notes: x\nworkflow: [{{step: start, owner: me, next: end}}]\n")

    assert "# owner: me\n" in migration.text
    assert "# notes: x\n" in migration.text
    assert [note.message for note in migration.notes] == [
        '"notes" has no meaning here and is kept as a comment',
        '"owner" has no meaning here and is kept as a comment',
    ]


LOG = "{log: {tool: {kind: noop, args: {n: 1}}}}"


@pytest.mark.req("MIG-03", "SCOPE-10")
@pytest.mark.parametrize(
    "case",
    [
        f"""[{{when: "{{{{ event.name == 'call.done' }}}}",
              then: [{LOG}, {{next: {{next: [{{step: b, args: {{n: "{{{{ log.result.n }}}}"}}}}]}}}}]}}]""",
    ],
    ids=["args of a transition"],
)
def test_a_task_that_only_its_own_step_can_read_is_reported(case: str) -> None:
    """Its value would silently be nothing there."""
    migration = migrated(
        f"{HEAD}workflow:\n"
        f"  - {{step: start, tool: {{kind: noop}}, case: {case}}}\n"
        "  - {step: b, tool: {kind: noop}}\n"
    )

    assert ['"log" is read where' in item.message for item in migration.blocked] == [True]


@pytest.mark.req("MIG-03", "SCOPE-10", "V2C-06", "V2C-07", "V2C-08", "V2C-15", "O-29")
@pytest.mark.parametrize(
    "step",
    [
        "case: [{when: @done, then: [@log]}, {when: @exit_and_log, then: {next: b}}]",
        "case: [{when: @done, then: [@log]}, {when: @exit_and_late, then: [@more, {next: b}]}]",
        "spec: {case_mode: inclusive}, case: [{when: @error, then: [@log]}, {when: @error, then: {next: b}}]",
        "spec: {case_mode: inclusive}, case: [{when: @error, then: [@log]}, {when: @exit, then: {next: b}}]",
        "case: [{when: @error, then: [@log]}, {when: @exit, then: {next: b}}]",
        "spec: {on_error: continue}, case: [{when: @error, then: [@log]}, {when: @done, then: {next: b}}]",
        "case: [{when: @any, then: [@log]}, {when: @any, then: [@more]}]",
        "case: [{when: @any, then: [@log]}, {when: @exit, then: {next: b}}]",
        "case: [{when: @done, then: [@log]}, {else: {next: b}}]",
        "vars: {late: 1}, case: [{when: @done_and_late, then: {next: b}}]",
        "case: [{when: @done, then: {set: {late: 1}}}, {when: @done_and_late, then: {next: b}}]",
        "loop: {in: [1], iterator: x}, case: [{when: @error, then: [@log]}]",
    ],
)
def test_rules_that_fit_neither_arcs_nor_steps_become_a_pipeline_with_jumps(step: str) -> None:
    """That both do the same is seen in test_migration_pipelines.py and test_migrator_differential.py."""
    events = {name: f"event.name == '{event}'" for name, event in (("done", DONE), ("error", ERROR), ("exit", EXIT))}
    conditions = {
        "exit_and_log": f"{events['exit']} and log.data.n == 1",
        **{f"{name}_and_late": f"{condition} and vars.late" for name, condition in events.items()},
        **events,
        "any": "workload.flag",
    }
    for name, condition in conditions.items():
        step = step.replace(f"@{name},", f'"{{{{ {condition} }}}}",')
    step = step.replace("@log", LOG).replace("@more", '{more: {tool: {kind: noop, args: {n: "{{ log.data.n }}"}}}}')
    migration = migrated(
        f"{HEAD}workload: {{flag: true}}\nworkflow:\n"
        f"  - {{step: start, tool: {{kind: noop}}, {step}, next: end}}\n"
        "  - {step: b, tool: {kind: noop}}\n"
    )

    assert (migration.blocked, migration.differing) == ((), ())
    assert any("one pipeline that jumps" in note.message for note in migration.notes)
    assert [one for one in compiled(migration.text)[2] if one.code[0] == "E"] == []


@pytest.mark.req("MIG-03", "V2C-09", "V2C-15")
def test_values_set_on_a_failed_call_are_set_before_the_step_fails() -> None:
    """A step's own `set_ctx` is for its success."""
    steps = steps_of(
        """
        - step: start
          tool: {kind: noop}
          case: [{when: "{{ event.name == 'call.error' }}", then: {set: {why: "{{ response.error.kind }}"}}}]
        """
    )

    wrote, fails = steps["start_error"]["tool"]
    assert wrote["spec"]["policy"]["rules"] == [{"else": {"then": {"set_ctx": {"why": "{{ args.error.kind }}"}}}}]
    assert fails["name"] == "fail_again"
    assert "set_ctx" not in steps["start_error"]


@pytest.mark.req("MIG-03", "V2C-06")
def test_only_the_first_of_two_exclusive_entry_rules_runs() -> None:
    steps = steps_of(
        f"""
        - step: start
          tool: {{kind: noop}}
          case:
            - {{when: "{{{{ event.name == 'step.enter' }}}}", then: [{LOG}]}}
            - {{when: "{{{{ event.name == 'start' }}}}", then: [{{never: {{tool: {{kind: noop}}}}}}]}}
        """
    )

    assert [task["name"] for task in steps["start"]["tool"]] == ["log", "start_task"]


@pytest.mark.req("MIG-03", "V2C-06", "V2C-14")
def test_a_response_rule_of_a_step_without_a_call_is_reported() -> None:
    rules = f"""[{{when: "{{{{ event.name == 'start' }}}}", then: [{LOG}]}},
        {{when: "{{{{ event.name == 'call.done' and response.n }}}}", then: [{{more: {{tool: {{kind: noop}}}}}}]}}]"""
    migration = migrated(f"{HEAD}workflow:\n  - {{step: start, case: {rules}}}\n")

    assert ["the step makes no call" in item.message for item in migration.blocked] == [True]


@pytest.mark.req("MIG-03", "V2C-06", "V2C-14", "O-29")
@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("tool: {kind: noop}, case: [{when: @enter, then: {next: b}}]", "decides before the call"),
        ("case: [{when: @done, then: {next: b}}]", "the step makes none"),
    ],
)
def test_a_rule_that_would_become_an_arc_evaluated_at_another_time_is_reported(step: str, words: str) -> None:
    """An arc is looked at when everything in the step has happened."""
    for short, condition in {"@enter": "event.name == 'step.enter'", "@done": "event.name == 'call.done'"}.items():
        step = step.replace(short, f'"{{{{ {condition} }}}}"')
    migration = migrated(f"{HEAD}workflow:\n  - {{step: start, {step}}}\n  - {{step: b, tool: {{kind: noop}}}}\n")

    assert [item.message for item in migration.blocked if words in item.message], migration.blocked


@pytest.mark.req("MIG-03", "V2C-14")
def test_a_rule_on_the_result_of_an_entry_task_stays_after_it() -> None:
    steps = steps_of(
        f"""
        - step: start
          case:
            - {{when: "{{{{ event.name == 'start' }}}}", then: [{LOG}]}}
            - {{when: "{{{{ event.name == 'call.done' }}}}", then: {{next: end}}}}
        """
    )

    assert [task["name"] for task in steps["start"]["tool"]] == ["log"]
    assert steps["start"]["next"] == {"arcs": [{"step": "end", "when": "{{ event.name == 'step.done' }}"}]}


@pytest.mark.req("MIG-03", "TOOL-10")
def test_the_name_of_a_workbook_task_stays_when_the_step_has_args() -> None:
    """`name` is the reference where there is no `task`, and the migrated task gets a name of its own."""
    book = "workbook: {double: {kind: python, args: {n: 1}, code: result = n * 2}}\n"
    step = (
        "  - step: start\n    args: {n: 2}\n    tool: {kind: workbook, name: double}\n    vars: {d: '{{ result }}'}\n"
    )

    text = migrated(f"{HEAD}{book}workflow:\n{step}").text

    assert "task: double" in text
    compiled(text)


@pytest.mark.req("MIG-03", "V2C-17")
def test_what_is_collected_stands_beside_the_last_response() -> None:
    collect = "{strategy: append, path: data.rows, into: pages}"
    retry = (
        f"[{{when: '{{{{ response.data.more }}}}', then: {{max_attempts: 9, next_call: {{}}, collect: {collect}}}}}]"
    )

    steps = steps_of(f"- {{step: start, tool: {{kind: http, url: x}}, retry: {retry}, next: end}}")

    [kept] = [task for task in steps["start"]["tool"] if task["name"].endswith("_collected")]
    assert kept["args"].startswith("{{ dict(")
    assert "pages=iter.pages" in kept["args"]


@pytest.mark.req("MIG-03")
def test_a_set_that_reads_what_one_before_it_wrote_is_reported() -> None:
    sets = "[{set: {a: 1}}, {set: {b: '{{ vars.a + 1 }}'}}, {next: [{step: end}]}]"
    rule = f"{{when: \"{{{{ event.name == 'call.done' }}}}\", then: {sets}}}"

    found = migrated(f"{HEAD}workflow:\n  - {{step: start, tool: {{kind: noop}}, case: [{rule}]}}\n")

    assert any("set_ctx writes all at once" in note.message for note in found.blocked)


@pytest.mark.req("MIG-03", "V2C-17")
def test_a_sink_of_pages_leaves_the_last_response_as_the_result_of_the_step() -> None:
    sink = "{tool: {kind: postgres, auth: pg, table: t}, args: {n: '{{ page.data.n }}'}}"
    retry = f"[{{when: '{{{{ response.data.more }}}}', then: {{max_attempts: 9, next_call: {{}}, sink: {sink}}}}}]"

    steps = steps_of(f"- {{step: start, tool: {{kind: http, url: x}}, retry: {retry}, next: end}}")

    assert steps["start"]["tool"][-1] == {"name": "start_task_result", "kind": "noop", "args": "{{ start_task.data }}"}


@pytest.mark.req("MIG-03", "SCOPE-10")
def test_a_set_made_of_the_result_of_a_task_is_written_where_that_is_seen() -> None:
    steps = steps_of(
        """
        - step: start
          tool: {kind: http, url: x}
          case:
            - when: "{{ event.name == 'call.done' and response.data.v > 3 }}"
              then:
                - twice: {tool: {kind: python, args: {v: "{{ result.v }}"}, code: result = v * 2}}
                - set: {d: "{{ twice.result }}"}
                - next: [{step: b}]
            - when: "{{ event.name == 'call.done' }}"
              then: {next: [{step: b}]}
        - {step: b, tool: {kind: noop}}
        """
    )

    twice, kept = steps["start_done"]["tool"]
    assert twice["name"] == "twice"
    assert kept["spec"]["policy"]["rules"] == [{"else": {"then": {"set_ctx": {"d": "{{ twice.result }}"}}}}]
    assert "set_ctx" not in steps["start_done"]
