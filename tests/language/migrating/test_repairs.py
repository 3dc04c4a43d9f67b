"""Texts that `check` refuses although their meaning is clear: `migrate` rewrites them as v10, and a run shows the
value."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.language.conversion import ConversionOutcome, convert
from tests import quick_yaml
from tests.language.migrating.migrated import HEAD, KINDS
from tests.playbook_runs import Scripted
from tests.worker.case_running import called, refused, run_case

CASE = HEAD.replace("path: tests/t", "path: tests/t, dialect: v2-case")


def rescued(text: str) -> str:
    done = convert(Source("test.yaml", text), kinds=KINDS)
    assert not done.before.ok
    assert done.outcome is ConversionOutcome.MIGRATED, (
        [one.message for one in done.after.refusals] if done.after else done
    )
    assert done.text is not None
    return done.text


def retry_rule(text: str) -> dict[str, Any]:
    tool = quick_yaml.loaded(text)["workflow"][0]["tool"]
    task = tool[0] if isinstance(tool, list) else tool
    then: dict[str, Any] = task["spec"]["policy"]["rules"][0]["then"]
    return then


V10_RETRY = """workflow:
  - step: start
    tool:
      - name: fetch
        kind: http
        url: u
        spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: RETRY}, {else: {then: {}}}]}}
"""
CASE_RETRY = """workflow:
  - step: start
    tool: {kind: http, url: u}
    retry: RETRY
"""


@pytest.mark.req("MIG-06")
@pytest.mark.parametrize(
    ("text", "retry", "slept"),
    [
        (HEAD + V10_RETRY, "{do: retry, delay: 2}", [2, 2]),
        (HEAD + V10_RETRY, "{do: retry, attempts: 3, backoff: quadratic, delay: 2}", [2, 8]),
        (HEAD + V10_RETRY, "{do: retry, attempts: 3, backoff: expo, delay: 2}", [2, 4]),
        (HEAD + V10_RETRY, "{do: retry, attempts: 3, backoff: incremental, delay: 2}", [2, 4]),
        (CASE + CASE_RETRY, "{delay: 2, spec: {mode: fixed}}", [2, 2]),
        (CASE + CASE_RETRY, "{max_attempts: 3, delay: 2, spec: {mode: quadratic}}", [2, 8]),
        (CASE + CASE_RETRY, "{max_attempts: 3, delay: 2, spec: {mode: expo}}", [2, 4]),
    ],
)
def test_a_retry_without_a_bound_or_with_a_custom_word_is_written_out(
    text: str, retry: str, slept: list[float]
) -> None:
    new = rescued(text.replace("RETRY", retry))

    name = "fetch" if "fetch" in text else "start_task"
    ran = run_case(new, tool=Scripted(**{name: [refused(503), refused(503), {"n": 1}]}))
    assert retry_rule(new)["attempts"] == 3
    assert [delay for delay in ran.slept if delay] == slept
    assert ran.result.status.value == "completed"


@pytest.mark.req("MIG-06")
@pytest.mark.parametrize(
    ("head", "loop"),
    [(HEAD, "{in: [1, 2]}"), (CASE, "{collection: [1, 2], iterator: item}"), (CASE, "{in: [1, 2], element: item}")],
)
def test_a_loop_gets_an_iterator_name(head: str, loop: str) -> None:
    end = "next: end" if head is CASE else "next: {arcs: [{step: end}]}"
    text = (
        f"{head}workflow:\n  - step: start\n    loop: {loop}\n"
        f'    tool: {{kind: http, url: "{{{{ item }}}}"}}\n    {end}\n  - step: end\n    tool: {{kind: noop}}\n'
    )

    done = convert(Source("test.yaml", text), kinds=KINDS)

    ran = run_case(done.text or "")
    assert [inputs["url"] for _, inputs in ran.tool.calls] == [1, 2]


NEXT_WHEN = """workflow:
  - step: start
    tool: {kind: http, url: u}
    case:
      - when: "{{ event.name == 'call.error' }}"
        then: {set: {bad: true}, next: sorry}
    next:
      - {step: big, when: "{{ workload.n > 5 }}", args: {n: "{{ workload.n }}"}}
      - {step: small}
  - {step: big, tool: {kind: http, url: big}}
  - {step: small, tool: {kind: http, url: small}}
  - {step: sorry, tool: {kind: http, url: sorry}}
"""


@pytest.mark.req("MIG-06", "V2C-04")
@pytest.mark.parametrize(
    ("number", "answer", "tasks", "ctx"),
    [
        (9, {"n": 1}, ["start_task", "big_task"], {}),
        (1, {"n": 1}, ["start_task", "small_task"], {}),
        (9, refused(500), ["start_task", "sorry_task"], {"bad": True}),
    ],
)
def test_a_condition_in_the_next_of_a_case_step_becomes_a_guard(
    number: int, answer: Any, tasks: list[str], ctx: dict[str, Any]
) -> None:
    new = rescued(f"{CASE}workload: {{n: {number}}}\n{NEXT_WHEN}")

    ran = run_case(new, start_task=answer)
    assert (called(ran), ran.result.ctx) == (tasks, ctx)


WORK = """workflow:
  - step: start
    tool:
      - fetch: {kind: http, url: u}
      - shape: {kind: python, code: "result = 1"}
    case:
      - when: "{{ event.name == 'call.done' }}"
        then:
          - save: {tool: {kind: postgres, auth: pg_creds, table: t, args: {n: "{{ result.n }}"}}}
          - next: [{step: b, args: {n: "{{ result.n }}"}}]
      - when: "{{ event.name == 'call.error' }}"
        then: {next: c}
  - {step: b, tool: {kind: http, url: b, args: {n: "{{ args.n }}"}}}
  - {step: c, tool: {kind: http, url: c}}
"""


@pytest.mark.req("MIG-06", "DIA-04")
def test_tasks_of_a_case_rule_next_to_a_task_list_become_its_last_tasks() -> None:
    ran = run_case(rescued(HEAD + WORK), fetch={"n": 1}, shape={"n": 7}, save={"saved": 1})

    assert called(ran) == ["fetch", "shape", "save", "b_task"]
    assert [ran.tool.inputs_of(task)[0]["args"] for task in ("save", "b_task")] == [{"n": 7}, {"n": 7}]


@pytest.mark.req("MIG-06", "DIA-04")
def test_a_failed_task_of_a_merged_rule_leads_to_the_error_rule() -> None:
    ran = run_case(rescued(HEAD + WORK), fetch={"n": 1}, shape={"n": 7}, save=refused(500))

    assert called(ran) == ["fetch", "shape", "save", "c_task"]


@pytest.mark.req("MIG-06")
def test_a_first_step_with_another_name_becomes_the_entry() -> None:
    text = f"{HEAD}workflow:\n  - {{step: begin, tool: {{kind: http, url: u}}, next: {{arcs: [{{step: b}}]}}}}\n"
    text += "  - {step: b, tool: {kind: noop}}\n"
    before = convert(Source("test.yaml", text), kinds=KINDS).before

    new = rescued(text)

    assert any("executor: {spec: {entry_step: begin}}" in one.hint for one in before.refusals)
    assert quick_yaml.loaded(new)["executor"] == {"spec": {"entry_step": "begin"}}
    assert called(run_case(new)) == ["begin_task"]


@pytest.mark.req("MIG-06", "DOC-10")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("workflow: [{step: start, kind: http, url: u}]\n", ("workflow", 0, "tool", "url")),
        ("steps: [{step: start, tool: {kind: http, url: u}}]\n", ("workflow", 0, "step")),
    ],
)
def test_a_key_with_another_place_in_v10_is_moved_there(text: str, place: tuple[Any, ...]) -> None:
    done = convert(Source("test.yaml", HEAD + text), kinds=KINDS)

    assert {one.code for one in done.before.diagnostics} == {"I_ALIAS"}
    assert done.outcome is ConversionOutcome.MIGRATED
    node = quick_yaml.loaded(done.text or "")
    for part in place:
        node = node[part]
    assert node is not None
    assert called(run_case(done.text or "")) == ["start_task"]


GUARDED = """workload: {n: 3, env: dev}
workflow:
  - step: start
    next: {arcs: [{step: a, when: WHEN}, {step: b}]}
  - {step: a, tool: {kind: noop, args: {at: a}}}
  - {step: b, tool: {kind: noop, args: {at: b}}}
"""


@pytest.mark.req("MIG-06", "VAL-16")
@pytest.mark.parametrize(
    ("when", "meant"),
    [
        ('"{{ n }} > 5"', "{{ n > 5 }}"),
        ('"not {{ n }}"', "{{ not n }}"),
        ('"{{ n }} == {{ env }}"', "{{ n == env }}"),
        ("\"${{ env == 'prod' }}\"", "{{ env == 'prod' }}"),
        ("\"'{{ env }}' == 'prod'\"", "{{ env == 'prod' }}"),
        ('"{{ n > 2 or env }} and {{ n > 5 }}"', "{{ (n > 2 or env) and (n > 5) }}"),
    ],
)
def test_a_condition_with_text_beside_its_braces_is_refused_and_written_as_one_expression(
    when: str, meant: str
) -> None:
    text = HEAD + GUARDED.replace("WHEN", when)

    found = check(Source("test.yaml", text), kinds=KINDS).refusals
    done = rescued(text)

    assert [(one.code, one.hint) for one in found] == [("E_GUARD_LITERAL", f'write "{meant}"')]
    assert quick_yaml.loaded(done)["workflow"][0]["next"]["arcs"][0]["when"] == meant
    assert run_case(done, {}, tool=Scripted()).result.result == {"at": "b"}


@pytest.mark.req("VAL-16")
@pytest.mark.parametrize("when", ["{{ n }}{{ env }}", " {{ n > 5 }} ", "{% if n > 5 %}true{% else %}false{% endif %}"])
def test_a_condition_may_have_blocks_and_blanks(when: str) -> None:
    assert check(Source("test.yaml", HEAD + GUARDED.replace("WHEN", f'"{when}"')), kinds=KINDS).ok


@pytest.mark.req("VAL-16")
def test_a_condition_that_is_no_expression_with_its_text_is_refused_with_the_way_out() -> None:
    text = HEAD + GUARDED.replace("WHEN", '"{{ n }} && {{ env }}"')

    (found,) = check(Source("test.yaml", text), kinds=KINDS).refusals

    assert found.hint == "write the whole condition between {{ and }}"
