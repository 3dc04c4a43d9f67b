"""What an execution gives back (SRV-06, O-08)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.finishing import final_result
from tests.conversing import Conversation

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
def test_one_terminal_step_gives_its_own_result() -> None:
    talk = Conversation("workflow: [{step: start, tool: {kind: noop, args: {x: 1}}}]")

    talk.start()

    assert result_of(talk) == {"x": 1}


def test_several_terminal_steps_give_a_mapping() -> None:
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


def test_a_failed_execution_still_shows_what_was_done() -> None:
    talk = Conversation(FORK % "")

    talk.start()
    talk.failed("a")
    talk.done("b", 2)

    assert talk.status == "failed"
    assert result_of(talk) == 2
