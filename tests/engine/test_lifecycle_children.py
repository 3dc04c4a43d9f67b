"""What a decision says is to become of children (O-02, O-16)."""

from __future__ import annotations

import pytest

from noetl.engine.commands import CancelExecution, Command, PauseExecution, ResumeExecution, Wake
from noetl.engine.decision import CancelCalled, CancelChildren, ChildEffect, PauseChildren, ResumeChildren
from tests.engine_script import Conversation

CALLING = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    timeout: {duration: 300s, spec: {on_timeout: %s}, alternative_step: other}
  - {step: other}
"""


def talk_about(on_timeout: str = "alternative") -> Conversation:
    talk = Conversation(CALLING % on_timeout)
    talk.start()
    return talk


def said_of_children(talk: Conversation, command: Command) -> list[ChildEffect]:
    return [effect for effect in talk.decide(command).effects if isinstance(effect, ChildEffect)]


@pytest.mark.req("O-16")
def test_children_are_paused_and_resumed_with_their_parent() -> None:
    talk = talk_about()

    assert said_of_children(talk, PauseExecution(at=1.0)) == [PauseChildren(reason="its parent was paused")]
    assert said_of_children(talk, PauseExecution(at=1.0)) == [], "it was so already"
    assert said_of_children(talk, ResumeExecution(at=2.0)) == [ResumeChildren(reason="its parent was resumed")]


@pytest.mark.req("O-02")
@pytest.mark.parametrize("compensate", [False, True])
def test_children_are_cancelled_as_their_parent_is(compensate: bool) -> None:
    talk = talk_about()
    effects = said_of_children(talk, CancelExecution(at=1.0, reason="enough", compensate=compensate))

    assert CancelChildren(reason="its parent was cancelled", compensate=compensate) in effects


def test_a_step_that_times_out_takes_the_children_that_it_called_with_it() -> None:
    talk = talk_about()
    talk.claim("start")
    run = talk.run("start")
    talk.clock.advance(300)

    [effect, *_] = said_of_children(talk, Wake(at=talk.clock.now()))

    assert effect == CancelCalled(step_run_id=run.step_run_id, reason="the step that waited for it has timed out")


def test_a_step_that_is_done_concerns_no_child() -> None:
    talk = talk_about()
    talk.claim("start")
    talk.done("start")
    assert talk.status == "completed"

    assert said_of_children(talk, CancelExecution(at=1.0)) == []
