"""The v2-case reader: what a document of that dialect may say, and what its reader keeps of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.language.reading.nodes import data
from noetl.language.reading.playbook import CaseExit, CaseOptions, SetVars, TaskSyntax
from tests.language.v2_case.case_text import HEAD, codes, read_case_text, read_step

FIXTURES = Path(__file__).parents[2] / "fixtures"
CASE_FIXTURES = sorted(path.stem for path in FIXTURES.glob("F-00[12]-*.yaml"))


@pytest.mark.req("V2C-02", "V2C-03", "V2C-12", "V2C-22", "VAL-19")
@pytest.mark.parametrize("name", CASE_FIXTURES)
def test_every_v2_case_fixture_is_read_without_findings(name: str) -> None:
    _, found = read_case_text((FIXTURES / f"{name}.yaml").read_text())

    assert found == []


@pytest.mark.req("V2C-01")
def test_name_and_path_at_the_root_are_moved_to_metadata() -> None:
    text = "apiVersion: noetl.io/v2\nkind: Playbook\nname: a\npath: x/a\nworkflow: [{step: start, next: end}]\n"

    playbook, found = read_case_text(text)

    assert (playbook.name, playbook.catalog_path, found) == ("a", "x/a", [])


@pytest.mark.req("V2C-01")
def test_a_differing_metadata_path_is_refused() -> None:
    text = HEAD + "path: x/other\nworkflow: [{step: start, next: end}]\n"

    assert codes(read_case_text(text)[1]) == ["E_METADATA"]


@pytest.mark.req("DOC-10", "V2C-20")
def test_a_save_block_gets_the_hint_to_write_a_sink() -> None:
    [found] = read_step("tool: {kind: noop}\nsave: {storage: postgres, table: t}")[1]

    assert (found.code, found.hint.partition(":")[0]) == ("W_UNKNOWN_KEY", "write sink")


@pytest.mark.req("V2C-03")
def test_step_keys_are_read_separately_from_tool_keys() -> None:
    step, found = read_step(
        """
        desc: adds
        args: {a: 1}
        tool: {kind: python, args: {b: 2}, code: "result = a + b", spec: {timeout: 5s}}
        sink: {tool: {kind: postgres, table: t, args: {x: 0, y: 2}}, args: {x: 1}}
        vars: {sum: "{{ result }}"}
        set_ctx: {seen: true}
        result: {store: {kind: file}}
        next: end
        """
    )

    assert found == []
    (task,) = step.tasks
    assert isinstance(task, TaskSyntax)
    assert (step.single, task.name, task.kind, sorted(task.inputs)) == (True, None, "python", ["args", "code"])
    assert data(step.args) == {"a": 1}
    assert step.sink is not None
    assert data(step.sink.inputs["args"]) == {"x": 1, "y": 2}
    assert data(step.vars) == {"sum": "{{ result }}"}
    assert data(task.spec) == {"timeout": "5s"}


@pytest.mark.req("V2C-03", "VAL-05", "C-29", "C-02", "TASK-06")
@pytest.mark.parametrize(
    ("body", "code", "place"),
    [
        ("desc: x", "E_STEP_EMPTY", "workflow[0].step"),
        ("next:", "E_STEP_EMPTY", "workflow[0].step"),
        ('when: "{{ true }}"\nnext: end', "E_STEP_KEY", "workflow[0].when"),
        ("sinc: {}\nnext: end", "E_STEP_KEY", "workflow[0].sinc"),
        ("owner: me\nnext: end", "W_UNKNOWN_KEY", "workflow[0].owner"),
        ("pipe: []\nnext: end", "E_PIPE", "workflow[0].pipe"),
        ("eval: []\nnext: end", "E_EVAL", "workflow[0].eval"),
        ("vars: [a]\nnext: end", "E_STEP_KEY", "workflow[0].vars"),
        ("tool: [{kind: noop}]", "E_TASK_KEY", "workflow[0].tool"),
        ("tool: {url: x}", "E_TOOL_KIND", "workflow[0].tool"),
        ("tool: 5", "E_TOOL_KIND", "workflow[0].tool"),
        ("tool: {kind: next, step: end}", "E_TOOL_KIND", "workflow[0].tool.kind"),
        ("tool: {kind: noop, eval: []}", "E_EVAL", "workflow[0].tool.eval"),
        ('tool: {kind: noop, when: "{{ a }}"}', "E_TASK_WHEN", "workflow[0].tool.when"),
        ("tool: {kind: noop, pipe: []}", "E_PIPE", "workflow[0].tool.pipe"),
        ("next: end\nsink: {tool: {kind: postgres, table: t}, args: rows}", "E_RULE_SHAPE", "workflow[0].sink.args"),
        ("next: end\nsink: {args: {a: 1}}", "E_RULE_SHAPE", "workflow[0].sink"),
    ],
)
def test_a_malformed_step_is_refused_at_its_place(body: str, code: str, place: str) -> None:
    _, found = read_step(body)

    assert [(item.code, item.path) for item in found] == [(code, place)]
    assert found[0].hint


@pytest.mark.req("VAL-05")
@pytest.mark.parametrize("body", ["timer: {duration: 5m}", "signal: {name: go}", "case: []", "tool: {kind: noop}"])
def test_a_step_needs_only_one_action(body: str) -> None:
    assert read_step(body)[1] == []


@pytest.mark.req("VAL-05")
def test_a_step_named_end_can_be_empty() -> None:
    assert read_case_text(HEAD + "workflow: [{step: start, next: end}, {step: end}]\n")[1] == []


@pytest.mark.req("VAL-18", "V2C-02", "V2C-27", "C-32")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("tool: {kind: noop, spec: {case_mode: inclusive}}", "case_mode is a step option"),
        ("tool: {kind: noop, spec: {policy: {rules: []}}}", "v2-case has no policy"),
        ("next: end\nspec: {async: true}", "async is a tool option"),
        ("next: end\nspec: {mode: parallel}", "mode is a loop or retry option"),
        ("next: end\nspec: {case_mod: inclusive}", '"case_mod" is not an option of a step'),
        ("next: end\nspec: {case_mode: all}", 'case_mode must be one of exclusive, inclusive, and this is "all"'),
        ("next: end\nspec: {eval_mode: always}", "eval_mode must be one of on_entry, on_event"),
        ("next: end\nspec: {on_error: retry}", "on_error must be one of fail, continue"),
        ("tool: {kind: noop}\nretry: {max_attempts: 2, spec: {cache: true}}", "cache is a when option"),
        ("tool: {kind: noop}\nretry: {max_attempts: 2, spec: {on_exhausted: no}}", "on_exhausted must be one of"),
        ("tool: {kind: noop}\nloop: {in: [1], iterator: x, spec: {delay: 1}}", "delay is a next option"),
        ("case: [{when: true, spec: {retry: 1}, then: []}]", "retry is a tool option"),
        ("case: [{when: true, spec: {eval: loose}, then: []}]", "eval must be one of strict, lenient"),
        ("next: [{step: end, spec: {guard: true}}]", "guard is a next option"),
        ("case: [{when: true, then: [{next: {spec: {cache: true}, next: end}}]}]", "cache is a when option"),
    ],
)
def test_an_option_of_another_construct_is_refused(body: str, words: str) -> None:
    _, found = read_step(body)

    assert codes(found) == ["E_SPEC_OPTION"]
    assert words in found[0].message


@pytest.mark.req("V2C-02")
def test_spec_next_to_a_tool_in_a_task_list_gets_the_right_place_as_hint() -> None:
    _, found = read_step("case: [{when: true, then: [{save: {spec: {async: true}, tool: {kind: noop}}}]}]")

    assert codes(found) == ["E_SPEC_OPTION"]
    assert "tool.spec" in found[0].hint


@pytest.mark.req("V2C-02", "V2C-27")
def test_every_option_of_the_table_is_read() -> None:
    step, found = read_step(
        """
        spec: {case_mode: inclusive, eval_mode: on_event, timeout: 5m, on_error: continue}
        tool: {kind: noop, spec: {timeout: 5, retry: 3, async: true, auth_mode: header, special: 1}}
        loop: {collection: [1], element: x, spec: {mode: parallel, batch_size: 3, on_error: continue}}
        retry: {max_attempts: 2, spec: {mode: linear, jitter: true, backoff_base: 3, on_exhausted: continue}}
        case:
          - when: "{{ a }}"
            spec: {cache: true, eval: strict}
            then: [{next: {spec: {delay: 5s, guard: "{{ b }}", trigger_compensation: true}, next: end}}]
        """
    )

    assert found == []
    assert step.options == CaseOptions(case_mode="inclusive", eval_mode="on_event", on_error="continue")
    assert step.loop is not None
    assert (step.loop.mode, data(step.loop.max_in_flight), step.loop.on_error) == ("parallel", 3, "continue")
    (retry,) = step.retry
    assert (retry.when, retry.mode, data(retry.jitter)) == (None, "linear", True)
    assert (data(retry.multiplier), retry.on_exhausted) == (3, "continue")
    assert step.case is not None
    (rule,) = step.case.rules
    assert (rule.cache, rule.strict) == (True, True)
    (transition,) = rule.actions
    assert isinstance(transition, CaseExit)
    assert (data(transition.delay), data(transition.guard)) == ("5s", "{{ b }}")
    assert transition.trigger_compensation


@pytest.mark.req("V2C-22", "C-08", "VAL-03", "C-42")
@pytest.mark.parametrize(
    ("loop", "code", "words"),
    [
        ("{in: [1]}", "E_LOOP_SHAPE", "loop needs both in and iterator"),
        ("{element: x}", "E_LOOP_SHAPE", "loop needs both in and iterator"),
        ("{in: [1], element: x}", "E_LOOP_SHAPE", "two spellings"),
        ("{collection: [1], iterator: x}", "E_LOOP_SHAPE", "two spellings"),
        ("{collection: [1], element: x, mode: parallel}", "E_LOOP_SHAPE", "two spellings"),
        ("{in: [1], iterator: x, mode: both}", "E_LOOP_MODE", "sequential, parallel"),
        ("{in: [1], iterator: x, mode: parallel, spec: {mode: sequential}}", "E_LOOP_MODE", "under spec"),
        ("{in: [1], iterator: x, spec: {batch_size: 0}}", "E_SPEC_OPTION", "at least 1"),
        ("{in: [1], iterator: x, spec: {on_error: stop}}", "E_SPEC_OPTION", "fail, continue"),
        ("{in: [1], iterator: x, spec: {max_in_flight: 3}}", "I_ALIAS", "v10 word"),
        ("[1, 2]", "E_LOOP_SHAPE", "must be a mapping"),
    ],
)
def test_a_loop_uses_one_spelling(loop: str, code: str, words: str) -> None:
    _, found = read_step(f"tool: {{kind: noop}}\nloop: {loop}")

    assert codes(found) == [code]
    assert words in found[0].message


@pytest.mark.req("V2C-22")
@pytest.mark.parametrize(
    "loop",
    [
        "{in: [1], iterator: x, mode: parallel}",
        "{collection: [1], element: x, spec: {mode: parallel}}",
        "{in: [1], iterator: x, spec: {mode: parallel}}",
    ],
)
def test_both_spellings_of_a_loop_are_read_alike(loop: str) -> None:
    step, found = read_step(f"tool: {{kind: noop}}\nloop: {loop}")

    assert found == []
    assert step.loop is not None
    assert (data(step.loop.items), step.loop.iterator.value, step.loop.mode) == ([1], "x", "parallel")


@pytest.mark.req("V2C-22", "VAL-03")
@pytest.mark.parametrize(
    "loop", ["{in: [], iterator: x}", "{collection: [], element: x}", "{in: [], iterator: x, spec: {}}"]
)
def test_a_loop_over_an_empty_list_and_an_empty_spec_is_a_loop(loop: str) -> None:
    step, found = read_step(f"tool: {{kind: noop}}\nloop: {loop}")

    assert found == []
    assert step.loop is not None
    assert (data(step.loop.items), step.loop.mode) == ([], "sequential")


@pytest.mark.req("V2C-04", "V2C-25", "C-04", "C-09")
@pytest.mark.parametrize(
    ("written", "targets", "mode"),
    [
        ("end", [("end", False)], "exclusive"),
        ("[end]", [("end", False)], "exclusive"),
        ("[{step: a, args: {n: 1}}, b]", [("a", False), ("b", False)], "inclusive"),
        ("\"{{ 'a' if x else 'b' }}\"", [("{{ 'a' if x else 'b' }}", True)], "exclusive"),
    ],
)
def test_the_next_shortcut_takes_names_and_forks(written: str, targets: list[tuple[str, bool]], mode: str) -> None:
    step, found = read_step(f"next: {written}")

    assert found == []
    assert step.router is not None
    assert [(arc.target.value, arc.template) for arc in step.router.arcs] == targets
    assert step.router.mode == mode


@pytest.mark.req("V2C-04", "C-04", "C-32")
@pytest.mark.parametrize(
    ("body", "found_codes"),
    [
        ('next: [{step: end, when: "{{ a }}"}]', ["E_NEXT_WHEN"]),
        ("next: [{step: end, then: []}]", ["E_NEXT_WHEN"]),
        ("next: {step: end}", ["E_NEXT_SHAPE"]),
        ("next: {arcs: [{step: end}]}", ["E_NEXT_SHAPE"]),
        ("next: []", ["E_NEXT_SHAPE"]),
        ("next: [{args: {a: 1}}]", ["E_NEXT_SHAPE"]),
        ("next: [[end]]", ["E_NEXT_SHAPE"]),
        ("next: 5", ["E_NEXT_SHAPE"]),
        ("next: [{step: end, stp: 1}]", ["E_NEXT_SHAPE"]),
        ("next: [{step: end, spec: {delay: soon}}]", ["E_DURATION"]),
        ('case: [{when: true, then: {next: [{step: end, when: "{{ a }}"}]}}]', ["E_NEXT_WHEN"]),
    ],
)
def test_next_has_no_conditions_and_no_other_form(body: str, found_codes: list[str]) -> None:
    _, found = read_step(body)

    assert codes(found) == found_codes
    if found_codes == ["E_NEXT_WHEN"]:
        assert "case" in found[0].hint
        assert "next.arcs[].when" in found[0].hint


@pytest.mark.req("V2C-09", "V2C-16")
def test_a_then_mapping_runs_in_its_fixed_order() -> None:
    step, found = read_step(
        """
        case:
          - when: "{{ true }}"
            then:
              next: [{step: b}]
              retry: {max_attempts: 2}
              set: {a: "{{ result.x }}"}
              sink: {tool: {kind: postgres, table: t}, args: {x: 1}}
        """
    )

    assert found == []
    assert step.case is not None
    (rule,) = step.case.rules
    assert [type(action) for action in rule.actions] == [TaskSyntax, SetVars, CaseExit]
    assert len(rule.retry) == 1


@pytest.mark.req("V2C-10", "V2C-12", "C-07")
def test_a_then_list_keeps_its_names_and_accepts_three_forms_of_next() -> None:
    step, found = read_step(
        """
        case:
          - when: "{{ a }}"
            then:
              - sink: {tool: {kind: noop}}
              - notify: {tool: {kind: noop}, args: {x: 1}}
              - next: {next: [end, b]}
          - when: "{{ b }}"
            then: [{next: {spec: {delay: 5s}, next: [{step: end}]}}]
          - when: "{{ c }}"
            then: [{leave: {tool: {kind: next, step: end}}}]
          - else: [{next: {tool: {kind: next, step: end, args: {n: 1}}}}]
        """
    )

    assert found == []
    assert step.case is not None
    first, second, third, last = step.case.rules
    assert [action.name for action in first.actions if isinstance(action, TaskSyntax)] == ["sink", "notify"]
    transitions = [rule.actions[-1] for rule in (first, second, third, last)]
    assert all(isinstance(transition, CaseExit) for transition in transitions)
    assert [len(t.targets) for t in transitions if isinstance(t, CaseExit)] == [2, 1, 1, 1]
    assert last.when is None


@pytest.mark.req("V2C-12")
@pytest.mark.parametrize("written", ["end", "[end]", "[{step: end}]", "{next: end}", "{next: [{step: end}]}"])
def test_a_next_task_can_omit_its_inner_next(written: str) -> None:
    step, found = read_step(f'case: [{{when: "{{{{ a }}}}", then: [{{next: {written}}}]}}]')

    assert found == []
    assert step.case is not None
    [transition] = step.case.rules[0].actions
    assert isinstance(transition, CaseExit)
    assert [arc.target.value for arc in transition.targets] == ["end"]


@pytest.mark.req("V2C-08", "V2C-09", "V2C-10", "V2C-12", "C-35", "VAL-16")
@pytest.mark.parametrize(
    ("case", "found_codes"),
    [
        ("{when: true}", ["E_RULE_SHAPE"]),
        ("[{then: []}]", ["E_RULE_SHAPE"]),
        ("[{when: true}]", ["E_RULE_SHAPE"]),
        ("[{when: true, then: }]", ["E_RULE_SHAPE"]),
        ("[{when: event.ok, then: []}]", ["E_GUARD_LITERAL"]),
        ("[{when: true, then: [], thn: []}]", ["E_RULE_SHAPE"]),
        ("[{else: []}, {when: true, then: []}]", ["E_ELSE_ORDER"]),
        ("[{else: []}, {else: []}]", ["E_ELSE_ORDER"]),
        ("[{when: true, else: []}]", ["E_RULE_SHAPE"]),
        ("[{else: {then: []}}]", ["E_RULE_SHAPE"]),
        ("[{when: true, then: end}]", ["E_RULE_SHAPE"]),
        ("[{when: true, then: {sinc: {}}}]", ["E_RULE_SHAPE"]),
        ("[{when: true, then: {set: 1}}]", ["E_RULE_SHAPE"]),
        ("[{when: true, then: [{a: {tool: {kind: noop}}, b: {}}]}]", ["E_RULE_SHAPE"]),
        ("[{when: true, then: [{kind: noop}]}]", ["E_RULE_SHAPE"]),
        ("[{when: true, then: [{a: {kind: noop}}]}]", ["E_RULE_SHAPE", "E_RULE_SHAPE"]),
        ("[{when: true, then: [{a: }]}]", ["E_RULE_SHAPE"]),
        ("[{when: true, then: [{next: {step: end}}]}]", ["E_NEXT_SHAPE", "E_NEXT_SHAPE"]),
        ("[{when: true, then: [{next: }]}]", ["E_NEXT_SHAPE"]),
        ("[{when: true, then: [{next: {next: end, tool: {kind: next, step: end}}}]}]", ["E_NEXT_SHAPE"]),
        ("[{when: true, then: [{next: {tool: {kind: noop, step: end}}}]}]", ["E_NEXT_SHAPE"]),
        ("[{when: true, then: [{next: {tool: {kind: next}}}]}]", ["E_NEXT_SHAPE"]),
        ("[{when: true, then: [{next: {spec: {delay: soon}, next: end}}]}]", ["E_DURATION"]),
        ("[{when: true, then: [{next: {spec: {guard: a > 1}, next: end}}]}]", ["E_GUARD_LITERAL"]),
        ("[{when: true, then: [{next: {next: end}}, {late: {tool: {kind: noop}}}]}]", ["E_RULE_SHAPE"]),
    ],
)
def test_a_malformed_case_rule_is_refused(case: str, found_codes: list[str]) -> None:
    assert codes(read_step(f"next: end\ncase: {case}")[1]) == found_codes


@pytest.mark.req("V2C-08", "C-35")
def test_else_written_as_in_v10_gets_a_hint_what_to_omit() -> None:
    [found] = read_step("next: end\ncase: [{else: {then: {next: [{step: end}]}}}]")[1]

    assert (found.code, found.path) == ("E_RULE_SHAPE", "workflow[0].case[0].else.then")
    assert "leave then out" in found.hint


@pytest.mark.req("V2C-09", "V2C-10")
@pytest.mark.parametrize(
    ("then", "hint"),
    [
        ("{save: {tool: {kind: noop}}, next: end}", "write a list: then: [save: {tool: …}, next:"),
    ],
)
def test_a_key_of_the_other_form_of_then_gets_a_hint(then: str, hint: str) -> None:
    _, [found] = read_step(f"next: end\ncase: [{{when: true, then: {then}}}]")

    assert found.hint.startswith(hint)


@pytest.mark.req("V2C-10")
def test_set_and_retry_can_be_listed_among_tasks() -> None:
    step, found = read_step(
        "next: end\ncase: [{when: true, then: [{set: {a: 1}}, {save: {tool: {kind: noop}}},"
        " {retry: {max_attempts: 2, max_delay: 3}}, {next: end}]}]"
    )

    assert found == []
    assert step.case is not None
    [rule] = step.case.rules
    assert [type(action).__name__ for action in rule.actions] == ["SetVars", "TaskSyntax", "CaseExit"]
    assert [data(retry.max_delay) for retry in rule.retry] == [3]


@pytest.mark.req("V2C-10")
def test_a_task_can_be_named_set() -> None:
    assert read_step("next: end\ncase: [{when: true, then: [{set: {tool: {kind: noop}}}]}]")[1] == []


@pytest.mark.req("V2C-12")
def test_a_guarded_transition_can_be_followed_by_others() -> None:
    then = "[{next: {spec: {guard: '{{ a }}'}, next: end}}, {log: {tool: {kind: noop}}}]"

    assert read_step(f"next: end\ncase: [{{when: true, then: {then}}}]")[1] == []


@pytest.mark.req("V2C-16", "V2C-17", "V2C-18", "C-17")
def test_retry_policies_keep_their_order_and_parts() -> None:
    step, found = read_step(
        """
        tool: {kind: http, url: x}
        retry:
          - when: "{{ error.status == 429 }}"
            then: {max_attempts: 5, initial_delay: 1.0, backoff_multiplier: 2.0}
          - when: "{{ response.data.more }}"
            then:
              max_attempts: "{{ workload.pages }}"
              next_call: {params: {page: 2}}
              collect: {path: data.items, into: pages}
              sink: {tool: {kind: postgres, table: t}, args: {p: "{{ page.data }}"}}
        """
    )

    assert found == []
    errors, pages = step.retry
    assert (data(errors.max_attempts), data(errors.initial_delay), data(errors.multiplier)) == (5, 1.0, 2.0)
    assert errors.mode is None
    assert pages.collect is not None
    assert (pages.collect.path_text, pages.collect.into, pages.collect.strategy) == ("data.items", "pages", "append")
    assert data(pages.next_call) == {"params": {"page": 2}}
    assert pages.sink is not None


@pytest.mark.req("V2C-16", "V2C-17", "V2C-18", "C-16")
@pytest.mark.parametrize(
    ("retry", "code"),
    [
        ("3", "E_RULE_SHAPE"),
        ("{delay: 1}", "E_RETRY_ARGS"),
        ("{max_attempts: 0}", "E_RETRY_ARGS"),
        ("{max_attempts: many}", "E_RETRY_ARGS"),
        ("{max_attempts: 2, delay: soon}", "E_RETRY_ARGS"),
        ("{max_attempts: 2, delay: 1, initial_delay: 1}", "E_RETRY_ARGS"),
        ("{max_attempts: 2, backoff_multiplier: -1}", "E_RETRY_ARGS"),
        ("{max_attempts: 2, spec: {mode: none}}", "E_BACKOFF"),
        ("{max_attempts: 2, spec: {jitter: lots}}", "E_RETRY_ARGS"),
        ("{max_attempts: 2, dely: 1}", "E_RULE_SHAPE"),
        ("{when: true, then: {max_attempts: 2}}", "E_RULE_SHAPE"),
        ("[{then: {max_attempts: 2}}]", "E_RULE_SHAPE"),
        ("[{when: true}]", "E_RETRY_ARGS"),
        ("[{when: true, then: []}]", "E_RULE_SHAPE"),
        ("[{when: error, then: {max_attempts: 2}}]", "E_GUARD_LITERAL"),
        ("[{when: true, then: {max_attempts: 2, collect: {path: a}}}]", "E_RULE_SHAPE"),
        ("[{when: true, then: {max_attempts: 2, collect: {path: a, into: b, strategy: add}}}]", "E_RULE_SHAPE"),
        ("[{when: true, then: {max_attempts: 2, next_call: 5}}]", "E_RULE_SHAPE"),
        ("[{when: true, then: {max_attempts: 2, sink: {args: {}}}}]", "E_RULE_SHAPE"),
    ],
)
def test_a_retry_without_bound_or_malformed_is_refused(retry: str, code: str) -> None:
    _, found = read_step(f"tool: {{kind: noop}}\nretry: {retry}")

    assert set(codes(found)) == {code}


@pytest.mark.req("V2C-18")
@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("jitter: true", "write it as spec.jitter"),
        ("on_exhausted: continue", "write it as spec.on_exhausted"),
        ("backoff: linear", "write it as spec.mode"),
        ("max_retries: 3", "write max_attempts"),
    ],
)
@pytest.mark.parametrize("form", ["{max_attempts: 2, KEY}", "[{when: true, then: {max_attempts: 2, KEY}}]"])
def test_a_misplaced_retry_option_gets_the_right_place_as_hint(form: str, key: str, hint: str) -> None:
    [found] = read_step(f"tool: {{kind: noop}}\nretry: {form.replace('KEY', key)}")[1]

    assert (found.code, hint in found.hint) == ("E_RULE_SHAPE", True)


@pytest.mark.req("VAL-19")
def test_all_mistakes_of_a_document_are_reported_at_once() -> None:
    text = HEAD + "workflow: [{step: start, when: 'x', next: {step: a}, loop: {in: [1]}}, {step: b, desc: empty}]\n"

    assert set(codes(read_case_text(text)[1])) == {"E_STEP_KEY", "E_NEXT_SHAPE", "E_LOOP_SHAPE", "E_STEP_EMPTY"}
