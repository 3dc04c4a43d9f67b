"""Comparison of the projection of a log with the state of the engine after the same log."""

from __future__ import annotations

from collections import Counter

from noetl.engine.execution import Execution, StepRun
from noetl.events.projection.projection import Projection
from noetl.events.projection.state_history import StateHistory
from noetl.events.projection.views import StepRunView


def compare_projection(projection: Projection, execution: Execution) -> None:
    """After whole commands: in the middle of one, related events are not complete."""
    runs = {run_id: run for run_id, run in execution.runs.items() if run.side_run is None}
    held = {token_id: token.held for token_id, token in execution.tokens.items() if token.held is not None}
    waits = {wait_id: (wait.kind.value, wait.opened_at) for wait_id, wait in execution.open_waits.waits.items()}
    saga = execution.side_work.saga

    assert projection.status == _status(execution)
    assert projection.places == {token_id: token.step for token_id, token in execution.tokens.items()}
    assert {run_id: view.step for run_id, view in projection.runs.items()} == {
        run_id: run.step for run_id, run in runs.items()
    }
    assert set(projection.steps) == {run_id for run_id, run in runs.items() if run.ended is None}
    assert {key: one.reason for key, one in projection.held.items() if one.awaited is None} == held
    assert {key: (one.reason, one.since) for key, one in projection.held.items() if one.awaited is not None} == waits
    assert set(projection.side_runs) == set(execution.side_work.step_runs)
    assert list(projection.pending) == list(saga.todo if saga is not None else ())
    assert list(projection.undoable) == list(saga.registered if saga is not None else ())
    for run_id, view in {**projection.steps, **projection.side_runs}.items():
        _compare_run(view, execution.runs[run_id])


def compare_history(history: StateHistory, execution: Execution) -> None:
    """Compare the counts of each step: tokens before it, runs that have not left it, iterations of its loops."""
    runs = {run_id: run for run_id, run in execution.runs.items() if run.side_run is None}
    inside = {run.token.token_id for run in runs.values()}
    before = Counter(token.step for token_id, token in execution.tokens.items() if token_id not in inside)
    steps = {one.step: one for one in history.steps(history.seq)}

    assert {step: one.tokens for step, one in steps.items() if one.tokens} == before
    if execution.lifecycle.status is None:
        running = Counter(run.step for run in runs.values())
        assert {step: one.running for step, one in steps.items() if one.running} == running
        queued = Counter(run.step for run in runs.values() if run.timing.started_at is None)
        assert {step: one.queued for step, one in steps.items() if one.queued} == queued
    assert history.undoable(history.seq) == len(
        execution.side_work.saga.registered if execution.side_work.saga is not None else ()
    )
    for run_id, run in runs.items():
        if run.loop is not None:
            frame, counts = run.loop.frames[()], history.loops[run_id, ()].counts(history.seq)
            assert (counts.total, counts.done, counts.failed) == (frame.total, frame.done, frame.failed)
    # The totals in the header of an execution, and the data of a list row.
    partly = [one.loop for one in steps.values() if one.loop is not None and one.loop.failed]
    rows = execution.counts.failed_iterations
    assert (rows.failed, rows.total) == (sum(one.failed for one in partly), sum(one.total for one in partly))
    loops = [one.loop for one in steps.values() if one.loop is not None]
    assert (rows.unrun, rows.passed_over) == (sum(one.unrun for one in loops), sum(one.passed_over for one in loops))


def _status(execution: Execution) -> str:
    if execution.lifecycle.status is not None:
        return execution.lifecycle.status.value
    if execution.lifecycle.paused:
        return "paused"
    return "cancelling" if execution.lifecycle.cancelled is not None else "running"


def _compare_run(view: StepRunView, run: StepRun) -> None:
    pipeline = view.pipeline
    if run.loop is not None:
        assert view.loop is not None
        frame, level = run.loop.frames[()], view.loop.levels[0]
        assert (level.total, level.done, level.failed) == (frame.total, frame.done, frame.failed)
    elif run.progress.position.case is None and view.loop is None:  # rules of v2-case say which task comes next
        assert pipeline.task == run.progress.position.task
        running = [run.progress.position.attempt] if run.progress.in_task else []
        assert [one.attempt for one in pipeline.open.values()] == running
