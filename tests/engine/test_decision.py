"""Ids of events: an event is named by its position, so that a repeated decision brings the same ids (decision 18)."""

from __future__ import annotations

import pytest

from noetl.base.ids import positional
from noetl.engine.decision import Draft
from noetl.engine.execution import Execution
from noetl.events.executions import Final, PlaybookProcessed


@pytest.mark.req("EVT-02", "EVT-06")
def test_an_event_id_depends_on_its_position_and_not_on_the_attempt() -> None:
    execution = Execution(execution_id="x1", trace_id="t")
    execution.log.seq = 7

    decided = [
        Draft(execution, at, cause).add(PlaybookProcessed(status=Final.COMPLETED)) for at, cause in ((1, "a"), (2, "b"))
    ]

    assert [one.event_id for one in decided] == ["x1/8", "x1/8"]
    assert positional("x1", 8) == "x1/8"


def test_an_event_with_a_given_id_keeps_it() -> None:
    draft = Draft(Execution(execution_id="x1", trace_id="t"), 1.0, "cause")

    named = draft.add(PlaybookProcessed(status=Final.COMPLETED), event_id="registration")
    following = draft.add(PlaybookProcessed(status=Final.COMPLETED))

    assert (named.event_id, following.event_id) == ("registration", "x1/2")
