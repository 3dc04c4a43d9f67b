"""What may be recorded of a task run: large results by reference, large texts cut once (RES-03)."""

from __future__ import annotations

import msgspec
import pytest

from noetl.engine.pipeline.payloads import fitted_entry, fitted_outcome, truncated
from noetl.events.large_values import OVERHEAD_BYTES, set_apart
from noetl.events.outcomes import Error, Meta, Outcome, Status, TaskResult
from noetl.events.steps import StepDone
from noetl.events.tasks import Decided, TaskProcessed, TaskStarted
from noetl.store.results.files import MemoryResults

TEXTS = ["x" * 9_000, "é" * 9_000, "\x01" * 9_000, '"\\' * 4_500, "😀" * 9_000]
META = Meta(attempt=1, started_at=1.0, finished_at=2.0, trace_id="t" * 32, task_run_id="r" * 40, stdout="o" * 200_000)


@pytest.mark.req("RES-03")
@pytest.mark.parametrize("text", TEXTS, ids=["plain", "accents", "escapes", "quotes", "emoji"])
def test_a_truncated_text_fits_names_its_length_and_is_truncated_once(text: str) -> None:
    short = truncated(text, 500)

    assert 250 < len(msgspec.json.encode(short)) <= 502
    assert short.endswith(f"… (cut, {len(text)} characters)")
    assert text.startswith(short.partition(" … (cut")[0])


@pytest.mark.req("RES-03")
@pytest.mark.parametrize("limit", [100, 5_000, 65_536])
def test_the_largest_outcome_stays_within_the_limit_and_fitting_is_idempotent(limit: int) -> None:
    """Worker and server both look; errors, their causes, output and headers come together here."""
    results = MemoryResults()
    error = Error(kind="k", message="m" * 200_000, cause=Error(kind="c", message="é" * 200_000))
    raw = TaskProcessed(
        task="a",
        visit=1,
        attempt=1,
        task_run_id="r" * 40,
        outcome=Outcome(
            status=Status.ERROR, error=error, meta=META, helpers={"http": {"headers": {"h": "v" * 70_000}}}
        ),
        decision=Decided(rule=0, do="fail", error=error),
    )

    once = fitted_entry(raw, limit, results.put)

    assert fitted_entry(once, limit, results.put) is once
    assert len(msgspec.json.encode(set_apart(once, limit, results.put))) <= limit + OVERHEAD_BYTES


def test_an_entry_that_fits_is_returned_unchanged() -> None:
    started = TaskStarted(task="a", kind="noop", visit=1, attempt=1, task_run_id="r")
    for entry in (started, StepDone(result=TaskResult(result={"n": 1}))):
        assert fitted_entry(entry, 100, MemoryResults().put) is entry


def test_an_output_may_be_longer_than_an_error() -> None:
    outcome = Outcome(status=Status.SUCCESS, meta=META, result=1)

    stdout = fitted_outcome(outcome, 65_536, MemoryResults().put).meta.stdout

    assert stdout is not None
    assert 32_000 < len(stdout) < 32_800
