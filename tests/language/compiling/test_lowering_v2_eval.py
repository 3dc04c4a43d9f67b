"""The v2-eval dialect in the net, and what all dialects share at the root (V2E, DOC-06, ADM-07)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.net.routing import Admission, AdmitRule, Mode
from noetl.net.task import Mutations
from noetl.templates.values import Authored
from tests.language.compiling.outcomes import Compile
from tests.narrowing import present

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.mark.req("V2E-01")
def test_labels_become_names(compiled_document: Compile) -> None:
    result = compiled_document((FIXTURES / "F-000-E.yaml").read_text())

    names = [task.name for task in result.step("fetch_transform_store").tasks]
    assert names == ["init", "fetch_page", "save_page", "paginate"]


@pytest.mark.req("V2E-02")
def test_when_of_a_step_becomes_admission(compiled: Compile) -> None:
    result = compiled('- step: start\n  when: "{{ workload.go }}"\n  tool: [{ t: { kind: noop } }]', api="noetl.io/v2")

    assert result.loud == []
    assert result.step("start").admission == Admission(
        rules=(AdmitRule(when=Authored("{{ workload.go }}"), allow=True), AdmitRule(allow=False))
    )


@pytest.mark.req("V2E-05", "V2E-07", "V2E-08")
def test_every_write_of_eval_is_kept(compiled_document: Compile) -> None:
    rules = compiled_document((FIXTURES / "F-000-C.yaml").read_text()).policy("start", "work").rules

    assert rules[2].mutations == Mutations(
        set_iter=Authored({"seen": "{{ outcome.result }}"}),
        set_vars=Authored({"latest": "{{ outcome.result }}"}),
        set_ctx=Authored({"touched": True}),
        set_shared=Authored({"total": {"op": "sum", "value": "{{ outcome.result }}"}}),
        set_prev=Authored(100),
    )


@pytest.mark.req("V2E-09")
def test_next_mode_becomes_the_router_mode(compiled: Compile) -> None:
    result = compiled(
        "- step: start\n  spec: { next_mode: inclusive }\n  tool: [{ t: { kind: noop } }]\n"
        '  next: [{ step: a, when: "{{ vars.ok }}", args: { n: 1 } }, { step: b }]\n- step: a\n- step: b',
        api="noetl.io/v2",
    )
    router = result.router("start")

    assert result.loud == []
    assert (router.mode, [arc.target for arc in router.arcs]) == (Mode.INCLUSIVE, ["a", "b"])
    assert (router.arcs[0].when, router.arcs[0].args) == (Authored("{{ vars.ok }}"), Authored({"n": 1}))


@pytest.mark.req("V2E-04", "POL-02")
def test_the_same_rules_in_v10_leave_an_error_unmatched(compiled: Compile) -> None:
    rules = '[{ when: "{{ false }}", then: { do: retry, attempts: 2 } }]'
    result = compiled(f'- step: start\n  tool: {{ kind: python, code: "x", spec: {{ policy: {{ rules: {rules} }} }} }}')

    assert len(present(result.step("start").tasks[0].policy).rules) == 1
    assert result.loud == ["W_ERROR_UNMATCHED"]


@pytest.mark.req("ADM-01", "ADM-07")
def test_admission_rules_keep_parking_options(compiled: Compile) -> None:
    rules = "[{ when: true, then: { allow: true, set_token: { a: 1 } } }, { else: { then: { park: true } } }]"
    result = compiled(f"- step: start\n  spec: {{ policy: {{ admit: {{ mode: inclusive, rules: {rules} }} }} }}")
    admission = result.admission("start")

    assert result.loud == []
    assert admission.mode is Mode.INCLUSIVE
    assert admission.rules[0] == AdmitRule(when=Authored(True), allow=True, set_token=Authored({"a": 1}))
    assert admission.rules[1].park


@pytest.mark.req("DOC-06")
def test_kind_and_profile_of_the_executor_mean_the_same(compiled: Compile) -> None:
    nets = [
        compiled("- step: start", root=f"executor: {{ {word}: local, version: noetl-runtime/1 }}").net
        for word in ("kind", "profile")
    ]

    assert nets[0] == nets[1]
    assert present(nets[0]).executor.kind == "local"


def test_the_policy_of_the_executor_is_split_into_its_parts(compiled: Compile) -> None:
    result = compiled(
        "- step: start",
        root="""
        executor:
          spec:
            policy:
              limits: { max_step_runs: 20 }
              results: { reference_first: true }
              failure: { mode: fail_fast }
              compensation: auto
              placement: { zone: a }
              cost: { center: b }
        """,
    )
    executor = present(result.net).executor

    assert result.loud == []
    assert executor.limits == {"max_step_runs": 20}
    assert (executor.reference_first, executor.fail_fast, executor.auto_compensate) == (True, True, True)
    assert (executor.placement, executor.cost) == ({"zone": "a"}, {"center": "b"})
