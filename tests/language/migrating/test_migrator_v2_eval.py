"""v2-eval, construct by construct."""

from __future__ import annotations

import pytest

from tests.language.migrating.migrated import HEAD, migrated, steps_of

ERROR_FAILS = {"when": "{{ outcome.status == 'error' }}", "then": {"do": "fail"}}
ELSE_CONTINUES = {"else": {"then": {"do": "continue"}}}


@pytest.mark.req("MIG-01", "V2E-02")
def test_a_condition_on_the_step_becomes_admission() -> None:
    steps = steps_of("- {step: start, when: '{{ workload.go }}', spec: {timeout: 5m, pool: big}}")

    assert steps["start"]["spec"] == {
        "pool": "big",
        "policy": {
            "admit": {
                "rules": [
                    {"when": "{{ workload.go }}", "then": {"allow": True}},
                    {"else": {"then": {"allow": False}}},
                ]
            },
            "lifecycle": {"timeout_s": 300},
        },
    }


@pytest.mark.req("MIG-01", "MIG-02", "C-03", "C-11", "C-16")
def test_rules_keep_their_order_and_errors_their_default() -> None:
    steps = steps_of(
        """
        - step: start
          tool:
            - one:
                kind: http
                url: x
                timeout: 5
                eval:
                  - expr: "{{ outcome.http.status == 429 }}"
                    do: retry
                    attempts: 3
                    backoff: fixed
                    delay: 2
                  - {expr: "{{ outcome.result.data.skip }}", do: jump, to: two, set_ctx: {skipped: true}}
            - two: {kind: noop}
        """
    )

    assert steps["start"]["tool"] == [
        {
            "name": "one",
            "kind": "http",
            "url": "x",
            "spec": {
                "timeout": 5,
                "policy": {
                    "rules": [
                        {
                            "when": "{{ outcome.http.status == 429 }}",
                            "then": {"do": "retry", "attempts": 3, "backoff": "none", "delay": 2},
                        },
                        {
                            "when": "{{ outcome.result.data.skip }}",
                            "then": {"do": "jump", "to": "two", "set_ctx": {"skipped": True}},
                        },
                        ERROR_FAILS,
                        ELSE_CONTINUES,
                    ]
                },
            },
        },
        {"name": "two", "kind": "noop"},
    ]


@pytest.mark.req("MIG-01", "V2E-09")
def test_a_list_of_nexts_becomes_a_router_with_its_mode() -> None:
    steps = steps_of(
        """
        - step: start
          spec: {next_mode: inclusive}
          next: [{step: a, when: "{{ ctx.x }}"}, {step: b, args: {n: 1}}]
        - {step: a, next: [{step: b}]}
        - step: b
        """
    )

    assert steps["start"] == {
        "next": {
            "spec": {"mode": "inclusive"},
            "arcs": [{"step": "a", "when": "{{ ctx.x }}"}, {"step": "b", "args": {"n": 1}}],
        }
    }
    assert steps["a"] == {"next": {"arcs": [{"step": "b"}]}}


@pytest.mark.req("MIG-02", "V2E-05")
@pytest.mark.parametrize(
    ("loop", "next_", "home"),
    [
        ("", "[{step: b}]", "iter.n"),
        ("", "[{step: b, when: '{{ vars.n > 1 }}'}]", "ctx.start_n"),
        ("loop: {in: [1], iterator: x}", "[{step: b}]", "ctx.start_n"),
    ],
)
def test_a_step_variable_moves_to_the_scope_of_its_readers(loop: str, next_: str, home: str) -> None:
    """`iter` when only the pipeline reads it; else `ctx`: arcs do not see `iter`, and iterations do not share it."""
    steps = steps_of(
        f"""
        - step: start
          {loop or "desc: x"}
          tool:
            - count: {{kind: noop, eval: [{{else: {{do: continue, set_vars: {{n: 1}}}}}}]}}
            - show: {{kind: python, args: {{n: "{{{{ vars.n }}}}"}}, code: "result = n"}}
          next: {next_}
        - step: b
        """
    )

    scope, key = home.split(".")
    count, show = steps["start"]["tool"]
    assert count["spec"]["policy"]["rules"] == [{"else": {"then": {"do": "continue", f"set_{scope}": {key: 1}}}}]
    assert show["args"] == {"n": f"{{{{ {home} }}}}"}
    if "when" in next_:
        assert steps["start"]["next"]["arcs"][0]["when"] == f"{{{{ {home} > 1 }}}}"


@pytest.mark.req("MIG-02", "V2E-07")
def test_a_shared_variable_becomes_a_reducer_of_the_loop() -> None:
    steps = steps_of(
        """
        - step: start
          loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
          tool:
            - add:
                kind: noop
                eval: [{else: {do: continue, set_shared: {n: {op: sum, value: "{{ iter.x }}"}}}}]
          next: [{step: b, when: "{{ vars.n == 3 }}"}]
        - step: b
        """
    )

    assert steps["start"]["loop"]["spec"] == {"mode": "parallel", "policy": {"reducers": {"start_n": "sum"}}}
    (rule,) = steps["start"]["tool"][0]["spec"]["policy"]["rules"]
    assert rule == {"else": {"then": {"do": "continue", "set_ctx": {"start_n": "{{ iter.x }}"}}}}
    assert steps["start"]["next"]["arcs"][0]["when"] == "{{ ctx.start_n == 3 }}"


@pytest.mark.req("MIG-02", "V2E-08")
def test_set_prev_becomes_a_task_with_that_result() -> None:
    steps = steps_of(
        """
        - step: start
          tool:
            - a: {kind: noop, eval: [{else: {do: continue, set_prev: 7}}]}
            - b: {kind: python, args: {p: "{{ _prev }}"}, code: "result = p"}
        """
    )

    assert [task["name"] for task in steps["start"]["tool"]] == ["a", "a_prev", "b"]
    assert steps["start"]["tool"][1] == {"name": "a_prev", "kind": "noop", "args": "{{ iter.a_prev }}"}


@pytest.mark.req("MIG-02", "SCOPE-04")
@pytest.mark.parametrize(
    ("next_", "home"), [("[{step: b}]", "iter.page"), ("[{step: b, when: '{{ vars.page.n > 1 }}'}]", "ctx.start_page")]
)
def test_a_part_of_a_variable_moves_with_the_variable(next_: str, home: str) -> None:
    steps = steps_of(
        f"""
        - step: start
          tool:
            - count: {{kind: noop, eval: [{{else: {{do: continue, set_vars: {{page.n: 1, page.of: 2}}}}}}]}}
            - show: {{kind: python, args: {{n: "{{{{ vars.page.n }}}}"}}, code: "result = n"}}
          next: {next_}
        - step: b
        """
    )

    scope, key = home.split(".")
    count, show = steps["start"]["tool"]
    written = {f"{key}.n": 1, f"{key}.of": 2}
    assert count["spec"]["policy"]["rules"] == [{"else": {"then": {"do": "continue", f"set_{scope}": written}}}]
    assert show["args"] == {"n": f"{{{{ {home}.n }}}}"}
    if "when" in next_:
        assert steps["start"]["next"]["arcs"][0]["when"] == f"{{{{ {home}.n > 1 }}}}"


@pytest.mark.req("MIG-02")
@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            "{step: start, tool: [{a: {kind: noop, eval: [{expr: '{{ x }}', do: jump, to: a, set_prev: 1}]}}]}",
            "set_prev",
        ),
        (
            "{step: start, tool: [{a: {kind: noop, eval: [{else: {do: continue, set_shared: {n: 1}}}]}}]}",
            "set_shared outside a loop",
        ),
        ("{step: start, tool: [{a: {kind: noop, args: {v: '{{ vars }}'}}}]}", "vars is read as a whole"),
        (
            "{step: start, tool: [{a: {kind: noop, eval: [{else: {set_vars: {'{{ workload.key }}': 1}}}]}}]}",
            "the name of this variable is computed",
        ),
    ],
)
def test_constructs_without_a_v10_form_are_reported(step: str, words: str) -> None:
    migration = migrated(f"{HEAD}workflow:\n  - {step}\n")

    assert [words in item.message for item in migration.blocked] == [True]
    assert all(item.way_out for item in migration.blocked)


@pytest.mark.req("MIG-02")
def test_every_changed_variable_is_noted() -> None:
    step = "{step: start, tool: [{a: {kind: noop, eval: [{else: {do: continue, set_vars: {n: 1}}}]}}]}"

    (note,) = migrated(f"{HEAD}workflow:\n  - {step}\n").notes

    assert "the step variable n is now iter.n" in note.message


@pytest.mark.req("MIG-01", "DOC-09")
def test_workbook_tasks_are_rewritten_too() -> None:
    text = (
        HEAD
        + "workflow:\n  - step: start\n    tool: [{a: {kind: workbook, task: t}}]\n"
        + "workbook:\n  t: {kind: noop, eval: [{expr: '{{ false }}', do: fail}]}\n"
    )

    migration = migrated(text)

    assert "tasks:\n    t:" in migration.text
    assert "eval" not in migration.text
    assert migrated(migration.text).text == migration.text
