"""Steps in words of other systems lead to the same net as the canonical ones, or are refused; none is ignored."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from noetl.base.diagnostics import Source
from noetl.language.checking import Checked, check
from noetl.tools.kinds import KINDS

HEAD = "apiVersion: noetl.io/{api}\nkind: Playbook\nmetadata: {{name: t, path: t/t, dialect: v10}}\nworkflow:\n"
CALL = "kind: http, url: 'http://127.0.0.1/'"
NOOP = "    tool: {kind: noop}\n"
B = "\n  - {step: b, tool: {kind: noop}}\n  - {step: end, tool: {kind: noop}}"
BEST_EFFORT = "    spec: {policy: {failure: {mode: best_effort}}}"
ERROR = "{{ outcome.status == 'error' }}"


def checked(step: str, api: str = "v2") -> Checked:
    head = HEAD.format(api=api).replace(", dialect: v10", "" if api == "v10" else ", dialect: v10")
    return check(Source("a.yaml", f"{head}  - step: start\n{step}\n"), kinds=KINDS)


def retrying(then: str) -> str:
    rule = f'{{when: "{ERROR}", then: {{do: retry, {then}}}}}'
    return f"    tool: {{{CALL}, spec: {{policy: {{rules: [{rule}]}}}}}}"


def equals(step: str, value: str) -> str:
    return f"{{step: {step}, when: \"{{{{ (workload.go) == '{value}' }}}}\"}}"


@pytest.mark.req("DIA-08")
@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (f"    tool: {{{CALL}}}\n    retries: 2", retrying("attempts: 3")),
        (
            f"    tool: {{{CALL}, retries: 2, retryDelay: 5}}",
            retrying("attempts: 3, backoff: none, delay: 5"),
        ),
        (
            f"    tool: {{{CALL}, retry: {{attempts: 3, backoff: {{type: linear, delay: 2s, max: 1m}}}}}}",
            retrying("attempts: 3, backoff: linear, delay: 2s, max_delay: 1m"),
        ),
        (
            f"    tool: {{{CALL}, retry: {{maxAttempts: '3', delay: {{seconds: 2}}, backoff: constant}}}}",
            retrying("attempts: 3, backoff: none, delay: 2s"),
        ),
        (
            f"    tool: {{{CALL}, retry: {{maxAttempts: 3, delay_ms: 500, backoff: constant}}}}",
            retrying("attempts: 3, backoff: none, delay: 500ms"),
        ),
        (f"    tool: {{{CALL}, timeoutSeconds: 30}}", f"    tool: {{{CALL}, spec: {{timeout: 30s}}}}"),
        (f"    tool: {{{CALL}, timeout: {{minutes: 5}}}}", f"    tool: {{{CALL}, spec: {{timeout: 5m}}}}"),
        (f"    timeout-minutes: 5\n    tool: {{{CALL}}}", f"    timeout: 5m\n    tool: {{{CALL}}}"),
        (
            f"    continue-on-error: true\n    tool: {{{CALL}}}",
            f'    tool: {{{CALL}, spec: {{policy: {{rules: [{{when: "{ERROR}", then: {{do: continue}}}}]}}}}}}',
        ),
        (
            f"    allow_failure: 'yes'\n    tool: {{{CALL}}}",
            f"    continue_on_error: true\n    tool: {{{CALL}}}",
        ),
        (
            f"{NOOP}    next: {{to: b, params: {{n: 1}}}}{B}",
            f"{NOOP}    next: {{arcs: [{{step: b, args: {{n: 1}}}}]}}{B}",
        ),
        (
            f"{NOOP}    next: {{if: '{{{{ workload.go }}}}', then: b, else: end}}{B}",
            f"{NOOP}    next: {{arcs: [{{step: b, when: '{{{{ workload.go }}}}'}}, {{step: end}}]}}{B}",
        ),
        (
            f"{NOOP}    next: [{{step: b, when: '{{{{ workload.go }}}}'}}, {{step: end, default: true}}]{B}",
            f"{NOOP}    next: {{arcs: [{{step: b, when: '{{{{ workload.go }}}}'}}, {{step: end}}]}}{B}",
        ),
        (
            f"{NOOP}    next: {{parallel: [b, end]}}{B}",
            f"{NOOP}    next: {{spec: {{mode: inclusive}}, arcs: [b, end]}}{B}",
        ),
        *(
            (
                f"{NOOP}    next: {{{word}: [{{{when}: '{{{{ workload.go }}}}', {then}: b}}, {{{other}: end}}]}}{B}",
                f"{NOOP}    next: {{arcs: [{{step: b, when: '{{{{ workload.go }}}}'}}, {{step: end}}]}}{B}",
            )
            for word, when, then, other in (
                ("case", "when", "step", "else"),
                ("switch", "if", "then", "default"),
                ("choices", "condition", "next", "otherwise"),
            )
        ),
        (
            f"{NOOP}    next: {{switch: '{{{{ workload.go }}}}', cases: {{a: b, c: end}}, default: end}}{B}",
            f"{NOOP}    next: {{arcs: [{equals('b', 'a')}, {equals('end', 'c')}, {{step: end}}]}}{B}",
        ),
        (f"    concurrency: 2\n{NOOP}", f"    spec: {{concurrency: {{limit: 2}}}}\n{NOOP}"),
        *(
            (
                f"    tool: {{{CALL}, retry: {{type: {word}, interval: PT5S, maxAttempts: 3}}}}",
                retrying(f"attempts: 3, backoff: {backoff}, delay: PT5S"),
            )
            for word, backoff in (("constant", "none"), ("exponential", "exponential"), ("linear", "linear"))
        ),
        (f"{NOOP}    set_vars: {{n: 1}}", f"{NOOP}    set_ctx: {{n: 1}}"),
        ("    timer: PT90S", "    timer: {duration: PT90S}"),
        ("    timer: {duration: {hours: 1, minutes: 30}}", "    timer: {duration: 1h30m}"),
        (
            "    loop: {items: [1, 2], parallel: 2}\n    tool: {kind: noop}",
            "    loop: {in: [1, 2], iterator: item, spec: {mode: parallel, max_in_flight: 2}}\n    tool: {kind: noop}",
        ),
        (
            "    loop: {in: [1, 2], failFast: false}\n    tool: {kind: noop}",
            f"    loop: {{in: [1, 2], iterator: item}}\n{BEST_EFFORT}\n    tool: {{kind: noop}}",
        ),
    ],
)
def test_words_of_other_systems_mean_the_same_as_the_canonical_ones(written: str, canonical: str) -> None:
    found, wanted = checked(written), checked(canonical)

    assert found.refusals == ()
    assert wanted.refusals == ()
    assert found.net is not None
    assert wanted.net is not None
    assert replace(found.net, dialect="v10") == wanted.net


def test_a_retry_count_stays_an_input_of_a_kind_that_has_one() -> None:
    found = checked("    tool: {kind: dask, auth: cluster, retries: 2, code: 'def main(): return 1'}")

    assert found.net is not None
    assert found.net.transitions[0].tasks[0].inputs.data["retries"] == 2


@pytest.mark.parametrize("task", ["{kind: log, count: '007', limit: '3'}", "{kind: noop, args: {attempts: '3'}}"])
def test_numeric_text_in_data_stays_text(task: str) -> None:
    found = checked(f"    tool: {task}")

    assert [one.code for one in found.diagnostics if one.code == "I_ALIAS"] == []


@pytest.mark.req("SPEC-05")
@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("retry: {times_over: 3}", "E_SPEC_OPTION"),
        ("retry: {attempts: 3, jitter: true}", "E_SPEC_OPTION"),
        ("timeout: {connect: 5, write: 3}", "E_DURATION"),
    ],
)
@pytest.mark.parametrize("api", ["v2", "v10"])
def test_unread_parts_of_an_option_are_refused(spec: str, code: str, api: str) -> None:
    found = checked(f"    tool: {{{CALL}, spec: {{{spec}}}}}", api)

    assert [one.code for one in found.refusals] == [code]


@pytest.mark.parametrize(
    "next_",
    [
        "{switch: '{{ workload.go }}', cases: {'2': b}}",
        "{case: [{when: '{{ workload.go }}'}]}",
        "{switch: [{default: b}, {if: x, then: end}]}",
    ],
)
def test_an_ambiguous_choice_is_refused(next_: str) -> None:
    assert checked(f"{NOOP}    next: {next_}{B}").refusals != ()


def test_an_ambiguous_limit_of_a_looped_step_is_refused() -> None:
    found = checked(f"    concurrency: 2\n    loop: {{in: [1], iterator: item}}\n{NOOP}")

    assert [one.code for one in found.refusals] == ["E_STEP_KEY"]


WORKBOOK = (
    "workbook: [{name: double, kind: python, args: {n: 1}, code: result = n}, {name: log, kind: noop}]\nworkflow:\n"
)
REFERENCE = "tool: {kind: workbook, task: double}"


def whole(root: str) -> Checked:
    return check(Source("a.yaml", HEAD.format(api="v2").replace("workflow:\n", root)), kinds=KINDS)


def same(written: str, canonical: str) -> None:
    found, wanted = whole(written), whole(canonical)

    assert found.refusals == ()
    assert found.warnings == ()
    assert found.net is not None
    assert found.net == wanted.net


@pytest.mark.parametrize(
    "reference",
    ["workbook: double", "tool: double", "tool: {workbook: double}", "tool: {kind: double}", "tool: {tool: double}"],
)
def test_a_workbook_task_can_be_referenced_by_name_alone(reference: str) -> None:
    same(f"{WORKBOOK}  - step: start\n    {reference}\n", f"{WORKBOOK}  - step: start\n    {REFERENCE}\n")


def test_a_kind_takes_precedence_over_a_workbook_task_with_its_name() -> None:
    found = whole(f"{WORKBOOK}  - step: start\n    tool: {{kind: log, message: hello}}\n")

    assert found.net is not None
    assert found.net.transitions[0].tasks[0].kind == "log"


@pytest.mark.parametrize("kind", ["own", "csv"])
def test_a_word_that_is_a_kind_is_read_as_the_kind(kind: str) -> None:
    book = f"workbook: [{{name: {kind}, kind: {kind}}}]\nworkflow:\n"

    found = whole(f"{book}  - step: start\n    tool: {{kind: {kind}}}\n")

    assert [one for one in found.diagnostics if "workbook" in one.message] == []


@pytest.mark.parametrize("task", ["kind: log", "kind: dask, auth: cluster, code: 'def main(): return 1'"])
def test_a_tool_call_is_not_a_reference_to_a_task_with_its_name(task: str) -> None:
    book = "workbook: [{name: log, kind: noop}, {name: dask, kind: noop}]\nworkflow:\n"

    found = whole(f"{book}  - step: start\n    tool: {{{task}}}\n")

    assert [one for one in found.diagnostics if "workbook" in one.message] == []


FLOW = "workflow:\n  - {step: start, tool: {kind: noop}}\n"


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("{cron: '0 6 * * *'}", "{timer: {cron: '0 6 * * *'}}"),
        ("{schedule: '@daily'}", "{timer: {cron: '@daily'}}"),
        ("{cron: '0 6 * * *', timezone: Europe/Rome}", "{timer: {cron: '0 6 * * *', spec: {timezone: Europe/Rome}}}"),
        (
            "{schedule: {cron: '0 6 * * *', timezone: Europe/Rome}}",
            "{timer: {cron: '0 6 * * *', spec: {timezone: Europe/Rome}}}",
        ),
    ],
)
def test_a_trigger_can_consist_of_its_schedule(written: str, canonical: str) -> None:
    same(f"trigger: {written}\n{FLOW}", f"trigger: {canonical}\n{FLOW}")


def test_the_only_step_without_dependencies_is_the_start() -> None:
    steps = "workflow:\n  - {step: b, depends_on: [a], tool: {kind: noop}}\n  - {step: a, tool: {kind: noop}}\n"
    entry = "executor: {spec: {entry_step: a}}\n"
    turned = (
        "workflow:\n  - {step: b, tool: {kind: noop}}\n  - {step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}\n"
    )

    same(steps, entry + turned)


@pytest.mark.parametrize("word", ["name", "id"])
def test_dependencies_of_steps_under_another_word_for_their_name_are_read(word: str) -> None:
    steps = (
        f"workflow:\n  - {{{word}: a, type: python, code: result = 1}}\n"
        f"  - {{{word}: b, needs: a, type: python, code: result = 2}}\n"
    )
    turned = (
        "workflow:\n  - {step: a, tool: {kind: python, code: result = 1}, next: {arcs: [{step: b}]}}\n"
        "  - {step: b, tool: {kind: python, code: result = 2}}\n"
    )

    same(steps, f"executor: {{spec: {{entry_step: a}}}}\n{turned}")


def test_two_names_as_next_are_refused_with_both_rewrites() -> None:
    found = whole(f"workflow:\n  - step: start\n{NOOP}    next: [b, end]{B}\n")

    assert {one.code for one in found.refusals} == {"E_NEXT_SHAPE"}
    assert "write next: {parallel: […]} if all shall run" in found.refusals[0].hint


@pytest.mark.req("DOC-10")
@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("strategy: {matrix: {os: [a, b]}}", "a step that repeats has loop"),
        ("matrix: {os: [a, b]}", "a step that repeats has loop"),
        ("errors: [{id: e}]", "arcs lead on"),
        ("rescue: [{name: e}]", "arcs lead on"),
        ("always: [{name: e}]", "arcs lead on"),
    ],
)
def test_words_that_repeat_or_rescue_a_step_are_refused(key: str, hint: str) -> None:
    (found,) = whole(f"workflow:\n  - step: start\n{NOOP}    {key}\n").refusals

    assert found.code == "E_STEP_KEY"
    assert found.hint.startswith(hint)


@pytest.mark.req("DOC-10")
@pytest.mark.parametrize("key", ["register", "save_as", "store_as", "assign", "result_key", "output_key"])
def test_a_name_for_a_result_is_answered_with_the_name_of_the_step(key: str) -> None:
    found = whole(f"workflow:\n  - step: start\n{NOOP}    {key}: user\n").diagnostics

    assert [(one.code, "by the name of the step" in one.hint) for one in found] == [("W_UNKNOWN_KEY", True)]


@pytest.mark.req("DOC-10")
def test_an_input_among_the_arguments_of_the_step_is_to_be_moved() -> None:
    steps = "workflow:\n  - {name: start, uses: http, with: {method: POST, url: u}}\n"

    (found,) = whole(steps).refusals

    assert (found.code, found.hint) == (
        "E_TASK_KEY",
        'move "url" from the args of the step into its tool: {kind: http, …}',
    )


@pytest.mark.req("DIA-08")
@pytest.mark.parametrize("place", ["task", "step"])
def test_a_number_of_retries_gets_one_note(place: str) -> None:
    step = f"    tool: {{{CALL}, retries: 3}}" if place == "task" else f"    tool: {{{CALL}}}\n    retries: 3"

    [note] = checked(step).diagnostics
    assert '"retries" of a step or task' in note.message
    assert "attempts: 4" in note.hint


def inputs_of(
    root: str, task: str = "{kind: noop, args: {a: '{{ inputs.v }}', b: '{{ 1 + inputs.v }} {{ v }}'}}"
) -> Checked:
    head = HEAD.format(api="v2").removesuffix("workflow:\n")
    return check(Source("a.yaml", f"{head}{root}\nworkflow:\n  - {{step: start, tool: {task}}}\n"), kinds=KINDS)


@pytest.mark.req("DIA-08")
@pytest.mark.parametrize("root", ["inputs: {v: 5}", "inputs: [{id: v, type: INT, default: 5}]", "workload: {v: 5}"])
def test_templates_read_the_inputs_of_the_root_by_their_own_word(root: str) -> None:
    found = inputs_of(root)

    if root.startswith("workload"):  # nothing is called so there
        assert [one.code for one in found.warnings] == ["W_UNDEFINED_NAME", "W_UNDEFINED_NAME"]
        return
    assert found.warnings == ()
    assert found.net is not None
    [task] = found.net.transitions[0].tasks
    assert task.inputs.data["args"] == {"a": "{{ workload.v }}", "b": "{{ 1 + workload.v }} {{ v }}"}


@pytest.mark.parametrize(
    "task",
    [
        "{name: inputs, kind: noop, args: {a: '{{ inputs.v }}'}}",
        "{kind: noop, args: {inputs: {v: 1}, a: '{{ inputs.v }}'}}",
        "{kind: python, code: 'result = \"{{ inputs.v }}\"'}",
    ],
)
def test_another_thing_called_inputs_keeps_its_name(task: str) -> None:
    found = inputs_of("inputs: {v: 5}", task)

    assert found.net is not None
    assert "inputs.v" in str(found.net.transitions[0].tasks[0])
