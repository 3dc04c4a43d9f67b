"""Hooks of a task: before its tool, after its directive, on leaving it; they change nothing (POL-13, O-31)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.playbook_runs import Ran, broken, run_here

TEXT = """
workflow:
  - step: start
    spec: {{policy: {{lifecycle: {{timeout_s: 60}}}}}}
    tool:
      - name: work
        kind: python
        code: x
        args: {{token: "{{{{ login.token | default('none') }}}}"}}
        spec:
          policy:
            before: [{{name: login, kind: python, code: x}}]
            after:
              - name: audit
                kind: python
                code: x
                args: {{s: "{{{{ outcome.status }}}}", t: "{{{{ login.token }}}}"}}
            finally:
              - {{name: logout, kind: python, code: x, args: {{token: "{{{{ login.token | default('none') }}}}"}}}}
            rules: {rules}
      - {{name: next, kind: python, code: x, args: {{token: "{{{{ login.token | default('gone') }}}}"}}}}
"""
CONTINUE = "[{else: {then: {do: continue}}}]"


def ran(rules: str = CONTINUE, **answers: Any) -> Ran:
    return run_here(TEXT.format(rules=rules), **{"login": {"token": "t1"}, **answers})


def names(ran: Ran) -> list[str]:
    return [name for name, _ in ran.tool.calls]


@pytest.mark.req("POL-13", "O-31")
def test_hooks_run_around_their_task_and_read_only_their_scope() -> None:
    one = ran(work=1)

    assert names(one) == ["login", "work", "audit", "logout", "next"]
    assert one.tool.inputs_of("work")[0]["args"] == {"token": "t1"}
    assert one.tool.inputs_of("audit")[0]["args"] == {"s": "success", "t": "t1"}
    assert one.tool.inputs_of("next")[0]["args"] == {"token": "gone"}, "their results end with the task"
    assert [name for name, _ in one.trace()] == ["work", "next"]


@pytest.mark.req("POL-13")
def test_a_failing_hook_is_reported_and_changes_nothing() -> None:
    one = ran(work=1, login=broken(), audit=broken(message="no disk"), logout=broken())

    assert one.trace() == [("work", "continue"), ("next", "continue")]
    failed = one.payloads("hook.failed")
    assert [(told.phase, told.hook) for told in failed] == [
        ("before", "login"),
        ("after", "audit"),
        ("finally", "logout"),
    ]
    assert failed[1].error.message == "no disk"
    assert one.result.status == "completed"


@pytest.mark.req("POL-13")
def test_finally_runs_after_fail() -> None:
    one = ran(rules="[{else: {then: {do: fail}}}]", work=broken())

    assert names(one) == ["login", "work", "audit", "logout"]
    assert one.tool.inputs_of("audit")[0]["args"]["s"] == "error"
    assert one.result.status == "failed"


@pytest.mark.req("POL-13")
def test_a_retry_does_not_leave_the_task() -> None:
    rules = (
        "[{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 3}}, {else: {then: {do: continue}}}]"
    )
    one = ran(rules=rules, work=[broken(), 2])

    assert names(one) == ["login", "work", "audit", "login", "work", "audit", "logout", "next"]
    assert one.result.status == "completed"


@pytest.mark.req("POL-13")
def test_hooks_of_iterations_name_their_iteration() -> None:
    text = """
workflow:
  - step: start
    loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
    tool:
      name: work
      kind: python
      code: x
      spec:
        policy:
          after: [{name: audit, kind: python, code: x, args: {x: "{{ iter.x }}"}}]
          rules: [{else: {then: {do: continue}}}]
"""
    one = run_here(text, audit=broken())

    assert sorted(told.path for told in one.payloads("hook.failed")) == [(0,), (1,)]
    assert one.result.status == "completed"
