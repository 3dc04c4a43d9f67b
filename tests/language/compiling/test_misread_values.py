"""Values that a template would misread get a warning."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Diagnostic, Source
from noetl.language.checking import check
from noetl.tools.kinds import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t/t}\n"
FAIL = "{when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}"


def found(text: str, code: str) -> list[Diagnostic]:
    checked = check(Source("a.yaml", HEAD + text), kinds=KINDS)
    assert checked.refusals == ()
    return [one for one in checked.diagnostics if one.code == code]


def task(rules: str, *, name: str = "fetch") -> str:
    policy = f"spec: {{policy: {{rules: [{rules}]}}}}"
    return (
        "workflow:\n  - step: start\n    tool:\n"
        f"      - {{name: {name}, kind: http, url: 'http://127.0.0.1/', {policy}}}\n"
    )


@pytest.mark.req("VAL-20")
@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("outcome.status == 'failed'", "outcome.status == 'error'"),
        ("outcome.status in ['ok', 'success']", "outcome.status == 'error'"),
        ("outcome.status == 404", "outcome.http.status"),
    ],
)
def test_an_unknown_outcome_status_gets_a_warning(condition: str, hint: str) -> None:
    [one] = found(task(f'{FAIL}, {{when: "{{{{ {condition} }}}}", then: {{do: continue}}}}'), "W_ERROR_KIND")

    assert "outcome.status is success or error" in one.message
    assert hint in one.hint


def test_the_two_outcome_statuses_get_no_warning() -> None:
    ok = "{when: \"{{ outcome.status == 'success' and outcome.http.status == 200 }}\", then: {do: continue}}"

    assert found(task(f"{FAIL}, {ok}"), "W_ERROR_KIND") == []


@pytest.mark.parametrize(
    ("read", "holder"),
    [("outcome.http.status_code == 404", "outcome.http"), ("outcome.pg.sqlstate == 'x'", "outcome.pg")],
)
def test_an_unknown_key_of_an_outcome_helper_gets_a_warning(read: str, holder: str) -> None:
    [one] = found(task(f'{FAIL}, {{when: "{{{{ {read} }}}}", then: {{do: continue}}}}'), "W_UNDEFINED_NAME")

    assert f'"{holder}" has no' in one.message


@pytest.mark.parametrize("read", ["ctx.region", "vars.region", "ctx.workload.region"])
def test_an_input_read_from_ctx_gets_a_warning(read: str) -> None:
    text = 'workload: {region: eu}\nworkflow:\n  - step: start\n    tool: {kind: noop, args: {r: "{{ READ }}"}}\n'

    [one] = found(text.replace("READ", read), "W_WORKLOAD_KEY")

    assert "workload." in one.hint


@pytest.mark.parametrize(
    "writing",
    [
        "ctx: {region: us}\nSTEP",
        "STEP    set_ctx: {region: us}\n",
        "STEP    set_ctx: {'{{ workload.region }}': us}\n",
        "STEP    next: {arcs: [{step: end, set_ctx: {region: us}}]}\n  - step: end\n",
    ],
)
def test_a_written_variable_may_have_the_name_of_an_input(writing: str) -> None:
    step = 'workflow:\n  - step: start\n    tool: {kind: noop, args: {r: "{{ ctx.region }}"}}\n'

    assert found("workload: {region: eu}\n" + writing.replace("STEP", step), "W_WORKLOAD_KEY") == []


@pytest.mark.parametrize(
    "rule", ["when: '{{ fetch.total > 1 }}', then: {do: break}", "else: {then: {set_ctx: {n: '{{ fetch.n }}'}}}"]
)
def test_a_task_that_reads_itself_in_its_own_rules_gets_a_warning(rule: str) -> None:
    [one] = found(task(f"{FAIL}, {{{rule}}}"), "W_FOREIGN_NAME")

    assert "outcome.result" in one.hint


@pytest.mark.parametrize("do", ["retry, attempts: 3", "jump, to: fetch"])
def test_a_repeated_task_may_read_its_previous_run(do: str) -> None:
    rules = f"{{when: '{{{{ fetch.total > 1 }}}}', then: {{do: {do}}}}}, {FAIL}"

    assert found(task(rules), "W_FOREIGN_NAME") == []


@pytest.mark.req("TOOL-07")
@pytest.mark.parametrize(
    "code", ["def run(input):\n    return 1", "import json\nN = 3\nasync def load(a):\n    return a"]
)
def test_code_that_calls_none_of_its_functions_gets_a_warning(code: str) -> None:
    body = "".join(f"        {line}\n" for line in code.splitlines())

    [one] = found(f"workflow:\n  - step: start\n    tool:\n      kind: python\n      code: |\n{body}", "W_PYTHON")

    assert "the task does nothing" in one.message
    assert "call it main" in one.hint


@pytest.mark.parametrize(
    "code",
    ["def main(a=1):\n    return a", "def f():\n    return 1\nresult = f()", "def f():\n    print(1)\nf()", "x = 1"],
)
def test_code_with_an_effect_gets_no_warning(code: str) -> None:
    body = "".join(f"        {line}\n" for line in code.splitlines())

    assert found(f"workflow:\n  - step: start\n    tool:\n      kind: python\n      code: |\n{body}", "W_PYTHON") == []


def python_step(code: str) -> str:
    body = "".join(f"        {line}\n" for line in code.splitlines())
    return f"workflow:\n  - step: start\n    tool:\n      kind: python\n      code: |\n{body}"


@pytest.mark.req("TOOL-07")
@pytest.mark.parametrize(
    "code", ["output = {'n': 1}", "outputs = {}\noutputs['n'] = 1", "import json\nresponse = json.loads('1')"]
)
def test_code_that_assigns_another_name_than_result_gets_a_warning(code: str) -> None:
    [one] = found(python_step(code), "W_PYTHON")

    assert "so the result of this task is null" in one.message
    assert "result = " in one.hint


@pytest.mark.parametrize(
    "code",
    [
        "output = 1\nresult = output",
        "def main():\n    return 1\noutput = 2",
        "output = 1\nreturn output",
        "output = open('f', 'w')\noutput.write('a')",
        "total = 1",
    ],
)
def test_code_whose_last_name_is_no_result_gets_no_warning(code: str) -> None:
    assert found(python_step(code), "W_PYTHON") == []


READ = 'STEP    next: {arcs: [{step: b}]}\n  - step: b\n    tool: {kind: noop, args: {a: "{{ READ }}"}}\n'


@pytest.mark.parametrize(
    ("code", "read", "instead"),
    [
        ("result = {'x': 4}", "start.output", "start.data"),
        ("result = {'x': 4}", "start.value", "start.data"),
        ("result = 4", "start.value", "start.data"),
        ("def main():\n    return {'x': 4}", "start.outputs.x", "start.x"),
        ("return [1, 2]", "start.value", "start.data"),
    ],
)
def test_reading_an_unknown_key_of_a_result_gets_a_warning(code: str, read: str, instead: str) -> None:
    text = READ.replace("STEP", python_step(code)).replace("READ", read)

    [one] = found(text, "W_FOREIGN_NAME")

    assert f"write {instead}" in one.hint


@pytest.mark.req("TPL-07")
@pytest.mark.parametrize(
    ("code", "read", "instead"),
    [
        ("result = {'x': 4}", "start.output.x", "start.x"),
        ("result = {'x': 4}", "start.output.data.x", "start.data.x"),
        ("return [1, 2]", "start.output", "start.data"),
    ],
)
def test_output_of_a_result_is_the_result_and_a_note_says_so(code: str, read: str, instead: str) -> None:
    text = READ.replace("STEP", python_step(code)).replace("READ", read)

    assert found(text, "W_FOREIGN_NAME") == []
    assert [one.hint for one in found(text, "I_ALIAS")] == [f"write {instead}"]


def test_reading_a_key_that_the_kind_does_not_return_gets_a_warning() -> None:
    step = "workflow:\n  - step: start\n    tool: {kind: shell, cmds: ls}\n"

    [one] = found(READ.replace("STEP", step).replace("READ", "start.output"), "W_FOREIGN_NAME")

    assert "exit_code, stderr, stdout" in one.hint


def test_reading_such_a_key_within_the_step_gets_a_warning() -> None:
    tasks = "{name: one, kind: python, code: 'result = 4'}, {name: two, kind: noop, args: {a: '{{ one.value }}'}}"

    [one] = found(f"workflow:\n  - step: start\n    tool: [{tasks}]\n", "W_FOREIGN_NAME")

    assert "write one.data" in one.hint


@pytest.mark.parametrize(
    ("code", "read"),
    [
        ("result = {'output': 4}", "start.output"),
        ("result = dict(x=4)", "start.output"),
        ("result = {'x': 4}\nresult['value'] = 5", "start.value"),
        ("result = {**args}", "start.value"),
        ("def main():\n    def one():\n        return 1\n    return {'value': one()}", "start.value"),
        ("result = {'x': 4}", "start.value | default(3)"),
        ("result = {'x': 4}", "start.data.x"),
        ("result = [{'value': 4}]", "start.value"),
    ],
)
def test_reading_a_key_that_the_result_can_have_gets_no_warning(code: str, read: str) -> None:
    text = READ.replace("STEP", python_step(code)).replace("READ", read)

    assert found(text, "W_FOREIGN_NAME") == []


def test_an_input_with_the_name_of_a_step_takes_precedence() -> None:
    text = READ.replace("STEP", python_step("result = 4")).replace("READ", "start.value")

    assert found("workload: {start: {value: 3}}\n" + text, "W_FOREIGN_NAME") == []


@pytest.mark.req("TOOL-07")
@pytest.mark.parametrize(
    ("code", "name", "hint"),
    [
        ("def main(context, results):\n    return 1", "results", "context"),
        ("def main(order):\n    return order", "order", "args: {order: …}"),
    ],
)
def test_a_parameter_of_main_without_a_value_gets_a_warning(code: str, name: str, hint: str) -> None:
    [one] = found(python_step(code), "W_PYTHON")

    assert f'nothing here is called "{name}"' in one.message
    assert hint in one.hint


@pytest.mark.parametrize(
    "parameters",
    ["args", "context, workload", "order=None", "start", "_prev", "*results", "**rest", "execution_id", "input_data"],
)
def test_a_parameter_of_main_with_a_value_or_default_gets_no_warning(parameters: str) -> None:
    assert found(python_step(f"def main({parameters}):\n    return 1"), "W_PYTHON") == []


def test_a_parameter_of_main_can_be_a_task_argument_or_a_workload_key() -> None:
    step = "workflow:\n  - step: start\n    tool:\n      kind: python\n      args: {a: 1}\n"
    code = "      code: |\n        def main(a, b):\n            return a\n"

    assert found(f"workload: {{b: 1}}\n{step}{code}", "W_PYTHON") == []


@pytest.mark.parametrize("call", ["ti.xcom_pull(task_ids='b')", "ti.xcom_pull('b')"])
def test_a_pulled_result_is_refused_with_the_expression_to_write(call: str) -> None:
    text = f'workflow:\n  - step: start\n    tool: {{kind: noop, args: {{a: "{{{{ {call} }}}}"}}}}\n'

    [one] = check(Source("a.yaml", HEAD + text), kinds=KINDS).refusals

    assert one.code == "E_TEMPLATE"
    assert "a result is read by the name of its step, as b.data" in one.message


QUERY = "  - step: load\n    tool: {kind: postgres, auth: pg, query: SELECT 1}\n    next: {arcs: [{step: use}]}\n"
START = "workflow:\n  - step: start\n    next: {arcs: [{step: load}]}\n"


def used(code: str, args: str = "{rows: '{{ load }}'}", before: str = QUERY) -> list[Diagnostic]:
    lines = "".join(f"        {line}\n" for line in code.splitlines())
    given = f"      args: {args}\n" if args else ""
    return found(
        f"{START}{before}  - step: use\n    tool:\n      kind: python\n{given}      code: |\n{lines}", "W_PYTHON"
    )


@pytest.mark.req("TPL-07")
@pytest.mark.parametrize(
    ("code", "args"),
    [
        ("result = [row['id'] for row in rows]", "{rows: '{{ load }}'}"),
        ("result = len(rows)", "{rows: '{{ load }}'}"),
        ("result = rows[0]['id']", "{rows: '{{ load }}'}"),
        ("def main(rows):\n    for row in rows:\n        print(row)", "{rows: '{{ load }}'}"),
        ("result = sorted(load)", ""),
    ],
)
def test_code_that_takes_a_whole_result_for_its_rows_is_warned_of(code: str, args: str) -> None:
    [one] = used(code, args)

    assert '"{{ load.data }}"' in one.hint


@pytest.mark.parametrize(
    ("code", "args"),
    [
        ("result = [row['id'] for row in rows]", "{rows: '{{ load.data }}'}"),
        ("result = [row['id'] for row in rows['data']]", "{rows: '{{ load }}'}"),
        ("rows = rows.get('data')\nresult = len(rows)", "{rows: '{{ load }}'}"),
        ("result = len(rows) if isinstance(rows, list) else 0", "{rows: '{{ load }}'}"),
        ("load = [1]\nresult = len(load)", ""),
    ],
)
def test_code_that_knows_what_it_has_is_fine(code: str, args: str) -> None:
    assert used(code, args) == []


def test_a_looped_step_gives_its_list_to_code() -> None:
    looped = QUERY.replace("  - step: load\n", "  - step: load\n    loop: {in: [1], iterator: x}\n")

    assert used("result = len(rows)", before=looped) == []


@pytest.mark.req("TPL-08")
@pytest.mark.parametrize(
    "read", ["not debug", "workload.debug and true", "'a' if workload.debug else 'b'", "workload.debug == true"]
)
def test_a_text_that_says_no_within_a_condition_is_warned_of(read: str) -> None:
    step = f'workflow:\n  - step: start\n    tool: {{kind: noop, args: {{a: "{{{{ {read} }}}}"}}}}\n'

    [one] = found(f'workload: {{debug: "false"}}\n{step}', "W_WORKLOAD_VALUE")

    assert "write debug: false" in one.hint
    assert found(f"workload: {{debug: false}}\n{step}", "W_WORKLOAD_VALUE") == []


@pytest.mark.parametrize("read", ["workload.debug", "workload.debug == 'false'"])
def test_such_a_text_as_a_whole_condition_or_compared_with_a_text_is_fine(read: str) -> None:
    arcs = f'    next: {{arcs: [{{step: b, when: "{{{{ {read} }}}}"}}]}}\n  - step: b\n'
    step = f"workload: {{debug: 'false'}}\nworkflow:\n  - step: start\n    tool: {{kind: noop}}\n{arcs}"

    assert found(step, "W_WORKLOAD_VALUE") == []


@pytest.mark.req("VAL-20")
@pytest.mark.parametrize("read", ["outcome.http.status == '404'", "outcome.error.status in ['404', '410']"])
def test_the_number_of_an_answer_compared_with_a_text_is_warned_of(read: str) -> None:
    texts = found(task(f'{FAIL}, {{when: "{{{{ {read} }}}}", then: {{do: continue}}}}'), "W_ERROR_KIND")

    assert texts[0].hint == "write 404 without quotes"


def test_a_text_of_that_name_in_a_body_is_fine() -> None:
    rule = "{when: \"{{ outcome.data.error.status == '404' }}\", then: {do: continue}}"

    assert found(task(f"{FAIL}, {rule}"), "W_ERROR_KIND") == []


def looped(task: str, more: str) -> str:
    return f"workflow:\n  - step: start\n    loop: {{in: [1, 2], iterator: x}}\n    tool: {{{task}}}\n{more}"


ADDING = "kind: noop, args: {t: '{{ ctx.total | default(0) }}'}"
TOTAL = "    set_ctx: {total: '{{ start.data }}'}\n"


@pytest.mark.req("LOOP-09", "V2C-21")
@pytest.mark.parametrize(
    ("task", "more", "hint"),
    [
        (ADDING, TOTAL, "reducers"),
        (ADDING.replace("ctx.", "vars."), "    vars: {total: '{{ result }}'}\n    next: end\n", "case rule"),
    ],
)
def test_an_iteration_that_reads_what_its_loop_writes_at_the_end_is_warned_of(task: str, more: str, hint: str) -> None:
    [one] = found(looped(task, more), "W_USED_BEFORE_SET")

    assert "is written once, after the loop" in one.message
    assert hint in one.hint


@pytest.mark.parametrize(
    "more",
    [
        TOTAL + "    next: {arcs: [{step: start, when: '{{ ctx.total | length < 5 }}'}]}\n",
        TOTAL + "    next: {arcs: [{step: b}]}\n  - step: b\n    set_ctx: {total: 3}\n",
        TOTAL.replace("total", "sum"),
    ],
)
def test_a_variable_that_a_loop_can_have_from_before_is_fine(more: str) -> None:
    assert found(looped(ADDING, more), "W_USED_BEFORE_SET") == []
