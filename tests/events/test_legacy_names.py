"""Legacy names: every CamelCase name of the old taxonomy stands for a stored one (C-13, EVT-05)."""

from __future__ import annotations

import pytest

from noetl.events.envelope import status_of
from noetl.events.events import TAXONOMY
from noetl.events.legacy_names import LEGACY, foreign_aliases, legacy_name, own_aliases
from tests.worker.case_running import answer, fixture, run_case

OLD = (
    *("PlaybookExecutionRequested", "PlaybookRequestEvaluated", "WorkflowStarted", "StepStarted", "NextEvaluated"),
    *("WorkflowFinished", "PlaybookPaused", "PlaybookProcessed", "ToolStarted", "ToolCompleted", "ToolErrored"),
    *("LoopStarted", "LoopIterationStarted", "LoopIterationCompleted", "RetryStarted", "RetryProcessed"),
    *("SinkStarted", "SinkProcessed", "CaseStarted", "CaseEvaluated"),
)


@pytest.mark.req("C-13", "EVT-05")
def test_the_table_has_every_old_name_and_only_stored_events() -> None:
    assert set(LEGACY) <= set(TAXONOMY)
    assert {*LEGACY.values(), legacy_name("task.processed"), legacy_name("task.processed", "error")} == set(OLD)


@pytest.mark.req("EVT-05")
def test_a_name_without_a_legacy_name_is_unchanged() -> None:
    assert legacy_name("ctx.patched") == "ctx.patched"


@pytest.mark.req("EVT-05")
def test_a_legacy_listing_shows_the_legacy_event_names() -> None:
    ran = run_case(fixture("F-001-D"), fetch_user_task=answer([{"user_id": 7, "email": "a@b"}]))

    names = [legacy_name(event.event_type, status_of(event.payload)) for event in ran.events]

    for name in ("WorkflowStarted", "StepStarted", "ToolStarted", "ToolCompleted", "NextEvaluated", "WorkflowFinished"):
        assert name in names
    assert names[-1] == "PlaybookProcessed"


@pytest.mark.req("EVT-10", "O-27")
def test_short_names_are_reserved_for_events_of_noetl() -> None:
    assert own_aliases("call.done") == {"task.processed", "ToolCompleted"}
    assert own_aliases("step.exit", failed=True) == {"step.failed"}
    assert foreign_aliases("task.processed", failed=True) == {"ToolErrored"}
    assert foreign_aliases("step.done") == {"step.done"}
