"""Rescue: documents that `check` refuses become v10 text that checks, construct by construct, and run (MIG-06)."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from noetl.base.diagnostics import Source
from noetl.language.conversion import Conversion, ConversionOutcome, convert
from noetl.tools.kinds import load_kinds
from tests.worker.case_running import answer, called, refused, run_case, visited

KINDS = load_kinds()
ERRORS = Path(__file__).parents[2] / "golden" / "check" / "err"
V2 = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t, path: tests/t }\n"
V10 = V2.replace("v2", "v10")

pytestmark = pytest.mark.req("MIG-06", "DIA-04")


def converted(text: str) -> Conversion:
    return convert(Source("test.yaml", text), kinds=KINDS)


def rescued(head: str, steps: str) -> str:
    text = f"{head}workflow:\n{dedent(steps).strip()}\n"
    done = converted(text)
    assert not done.before.ok, "the original should be refused"
    assert (done.outcome, done.blocked) == (ConversionOutcome.MIGRATED, ()), done.after and [
        one.message for one in done.after.refusals
    ]
    assert done.text is not None
    assert converted(done.text).outcome is ConversionOutcome.UNCHANGED
    return done.text


ARCS_AND_EVAL = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: work}]}
- step: work
  when: "{{ true }}"
  tool:
    - fetch:
        kind: http
        url: x
        eval:
          - {expr: "{{ outcome.error.status == 503 }}", do: retry, attempts: 3, backoff: fixed, delay: 2}
  next: [{step: good, when: "{{ event.name == 'step.done' }}"}, {step: bad, when: "{{ event.name == 'step.failed' }}"}]
- step: good
- step: bad
"""


@pytest.mark.parametrize(
    ("answers", "calls", "last"),
    [
        ([answer(1)], 1, "good"),
        ([refused(503), answer(1)], 2, "good"),
        ([refused(503)], 3, "bad"),
        ([refused(404)], 1, "bad"),  # matched by no rule: eval fails, where a policy of v10 would go on
    ],
)
def test_v10_arcs_next_to_v2_eval_tasks_are_migrated(answers: list[Any], calls: int, last: str) -> None:
    ran = run_case(rescued(V2, ARCS_AND_EVAL), fetch=answers)

    assert called(ran) == ["fetch"] * calls
    assert visited(ran) == ["start", "work", last]
    assert set(ran.slept) <= {2}


ARCS_AND_CASE = """
- step: start
  tool: [{name: first, kind: python, code: "result = 1"}]
  next: {arcs: [{step: call}]}
- step: call
  tool: {kind: http, url: x}
  vars: {n: "{{ result.n }}"}
  case:
    - when: "{{ event.name == 'call.error' }}"
      then: {next: [{step: bad}]}
    - when: "{{ event.name == 'call.done' and response.n > 1 }}"
      then:
        sink: {tool: {kind: postgres, auth: pg_creds, table: t}, args: {n: "{{ result.n }}"}}
        next: [{step: many}]
  next: few
- step: many
- step: few
- step: bad
"""


@pytest.mark.parametrize(
    ("call", "last", "stored"),
    [(answer({"n": 5}), "many", [{"n": 5}]), (answer({"n": 1}), "few", []), (refused(500), "bad", [])],
)
def test_v2_case_steps_next_to_v10_steps_are_migrated(call: Any, last: str, stored: list[Any]) -> None:
    ran = run_case(rescued(V2, ARCS_AND_CASE), call_task=[call])

    assert visited(ran)[-1] == last
    assert [inputs["args"] for name, inputs in ran.tool.calls if "sink" in name] == stored


@pytest.mark.parametrize(("works", "last"), [(True, "good"), (False, "bad")])
def test_a_case_after_a_v10_pipeline_is_migrated(works: bool, last: str) -> None:
    text = rescued(
        V2,
        """
        - step: start
          tool: [{name: a, kind: http, url: x}, {name: b, kind: python, code: "result = 2"}]
          case:
            - {when: "{{ event.name == 'call.error' }}", then: {next: bad}}
            - {when: "{{ event.name == 'call.done' and result == 2 }}", then: [{next: {next: [{step: good}]}}]}
        - step: good
        - step: bad
        """,
    )

    assert visited(run_case(text, a=[answer(1) if works else refused(500)], b=2))[-1] == last


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ('[{step: start, when: "{{ true }}", tool: {kind: noop}}]', "admit"),
        ("[{step: start, pipe: [{name: a, kind: noop}]}]", "tool: [{name: a, kind: noop}]"),
        ("[{step: start, kind: noop, args: {n: 1}}]", "tool:\n      kind: noop"),
        ('[{step: start, tool: [{name: a, kind: noop, when: "{{ false }}"}]}]', "choose"),
        ("[{step: start, tool: {kind: http, url: x, timeout: 5}}]", "spec:"),
        ("[{step: start, next: [a, b]}, {step: a}, {step: b}]", "inclusive"),
        ("[{step: begin, tool: {kind: noop}}]", "entry_step: begin"),
        ("[{step: start, tols: {kind: noop}}]", "tool: {kind: noop}"),
        ("[{step: start, next: {arcs: [{step: a, when: workload.n > 1}]}}, {step: a}]", "{{ workload.n > 1 }}"),
        ("[{step: start, tool: {kind: noop}, next: end}]", "step: end"),
    ],
)
def test_a_construct_with_a_plain_v10_form_is_rewritten(steps: str, words: str) -> None:
    done = converted(f"{V10}workflow: {steps}\n")

    assert done.outcome is ConversionOutcome.MIGRATED, (
        [one.message for one in done.after.refusals] if done.after else ()
    )
    assert words.replace(" ", "") in (done.text or "").replace(" ", "").replace('"', "")
    assert done.notes


@pytest.mark.req("MIG-06")
def test_a_v2_eval_document_without_start_is_migrated_by_its_own_rules() -> None:
    """The repairs of single constructs know nothing of `set_shared`; the rules of v2-eval do."""
    done = converted(
        V2
        + dedent("""\
        workload: {ids: [1, 2]}
        workflow:
          - step: sweep
            loop: {in: "{{ workload.ids }}", iterator: id, spec: {mode: parallel}}
            tool:
              - ping:
                  kind: noop
                  eval: [{else: {do: continue, set_shared: {any_down: true}}}]
        """)
    )

    assert done.outcome is ConversionOutcome.MIGRATED
    assert "entry_step: sweep" in (done.text or "")
    assert "reducers" in (done.text or "")
    assert any("entry_step" in note.message for note in done.notes)


@pytest.mark.req("MIG-06")
def test_a_v2_case_step_that_does_nothing_ends_its_path() -> None:
    done = converted(
        V2
        + dedent("""\
        workflow:
          - step: start
            tool: {kind: http, url: x}
            case:
              - {when: "{{ event.name == 'call.error' }}", then: {next: dead_letter}}
          - step: dead_letter
        """)
    )

    assert done.outcome is ConversionOutcome.MIGRATED, [note.message for note in done.blocked]
    assert visited(run_case(done.text or "", start_task=[refused(500)]))[-1] == "dead_letter"


def test_an_unquoted_template_gets_quotes() -> None:
    done = converted(
        f"{V10}workload: {{n: 1}}\nworkflow:\n  - step: start\n    set_ctx:\n      n: {{{{ workload.n }}}}\n"
    )

    assert done.outcome is ConversionOutcome.MIGRATED
    assert 'n: "{{ workload.n }}"' in (done.text or "")


def test_the_remaining_errors_are_reported_with_their_places() -> None:
    done = converted(V10 + 'workflow: [{step: start, when: "{{ true }}", next: {arcs: [{step: nowhere_near}]}}]\n')

    assert done.outcome is ConversionOutcome.REFUSED
    assert done.after is not None
    assert [found.code for found in done.after.refusals] == ["E_NEXT_REF"]


def test_comments_and_untouched_parts_are_unchanged() -> None:
    text = V2 + dedent("""\
        # what comes in
        workload: { n:   1 }   # kept
        workflow:
          # the gate
          - step: start
            when: "{{ workload.n }}"  # only then
            tool:
              - { name:  a,  kind: noop }  # as it was
            next: { arcs: [{ step: b }] }
          - step: b
        """)

    done = converted(text)

    assert done.outcome is ConversionOutcome.MIGRATED
    assert done.text is not None
    for kept in ("# what comes in", "{ n:   1 }   # kept", "# the gate", "# only then", "{ name:  a,  kind: noop }"):
        assert kept in done.text


@pytest.mark.parametrize("file", sorted(ERRORS.glob("*.yaml")), ids=lambda file: file.stem)
def test_no_refused_example_migrates_to_an_invalid_text(file: Path) -> None:
    done = converted(file.read_text())

    assert done.outcome in (ConversionOutcome.REFUSED, ConversionOutcome.BLOCKED) or (
        done.after is not None and done.after.ok
    )
    if done.outcome is ConversionOutcome.MIGRATED:
        assert converted(done.text or "").outcome is ConversionOutcome.UNCHANGED
