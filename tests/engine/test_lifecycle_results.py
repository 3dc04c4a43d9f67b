"""What an execution gives back (SRV-06, O-08)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.lifecycle import final_result
from tests.engine_script import Conversation

FORK = """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - step: a
    tool: {kind: python, code: x}
    %s
  - step: b
    tool: {kind: python, code: x}
  - step: end
    tool: {kind: noop, args: {all: "{{ a.data }}"}}
"""


def result_of(talk: Conversation) -> Any:
    return final_result(talk.execution, lambda result: result.result)


@pytest.mark.req("SRV-06")
def test_one_terminal_step_returns_its_own_result() -> None:
    talk = Conversation("workflow: [{step: start, tool: {kind: noop, args: {x: 1}}}]")

    talk.start()

    assert result_of(talk) == {"x": 1}


def test_several_terminal_steps_return_a_mapping() -> None:
    talk = Conversation(FORK % "")

    talk.start()
    talk.done("b", 2)
    talk.done("a", 1)

    assert result_of(talk) == {"b": 2, "a": 1}
    assert talk.payloads("playbook.processed")[0].result_of == ("b", "a")


def test_a_step_named_end_takes_precedence() -> None:
    talk = Conversation(FORK % "next: {arcs: [{step: end}]}")

    talk.start()
    talk.done("a", 1)
    talk.done("b", 2)

    assert result_of(talk) == {"all": 1}


def test_a_failed_execution_still_returns_completed_results() -> None:
    talk = Conversation(FORK % "")

    talk.start()
    talk.failed("a")
    talk.done("b", 2)

    assert talk.status == "failed"
    assert result_of(talk) == 2


@pytest.mark.req("DOC-11", "O-08")
def test_a_bare_terminal_step_returns_the_result_of_the_step_before_it() -> None:
    """Nearly every playbook leads to a bare `end`, and whoever calls it wants what it did."""
    talk = Conversation(
        "workflow: [{step: start, tool: {kind: python, code: x}, next: {arcs: [{step: end}]}}, {step: end}]"
    )

    talk.start()
    talk.done("start", {"n": 1})

    assert result_of(talk) == {"n": 1}
    assert talk.payloads("playbook.processed")[0].result_of == ("start",)


@pytest.mark.req("DOC-11", "O-08")
@pytest.mark.parametrize("join", ["", "spec: {join: all}"])
def test_branches_that_meet_in_a_bare_terminal_step_return_a_mapping(join: str) -> None:
    ends = "next: {arcs: [{step: end}]}"
    fork = FORK.replace("%s", ends).replace("  - step: b\n", f"  - step: b\n    {ends}\n")
    talk = Conversation(fork.replace('tool: {kind: noop, args: {all: "{{ a.data }}"}}', join))

    talk.start()
    talk.done("a", 1)
    talk.done("b", 2)

    assert result_of(talk) == {"a": 1, "b": 2}


@pytest.mark.req("DOC-11", "O-08")
def test_a_failure_that_leads_to_a_bare_terminal_step_returns_nothing() -> None:
    arcs = "arcs: [{step: end, when: \"{{ event.name == 'step.failed' }}\"}]"
    talk = Conversation(
        f"workflow: [{{step: start, tool: {{kind: python, code: x}}, next: {{{arcs}}}}}, {{step: end}}]"
    )

    talk.start()
    talk.failed("start")

    assert talk.status == "completed"
    assert result_of(talk) is None


@pytest.mark.req("O-08")
def test_a_terminal_step_with_a_task_returns_its_own_result() -> None:
    talk = Conversation(
        "workflow: [{step: start, tool: {kind: python, code: x}, next: {arcs: [{step: last}]}}, "
        "{step: last, tool: {kind: noop}}]"
    )

    talk.start()
    talk.done("start", {"n": 1})

    assert result_of(talk) is None
