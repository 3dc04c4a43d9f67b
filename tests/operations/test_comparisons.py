"""Two values and two executions compared: every place that differs, and how each step went in both."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.events.loops import LoopLevel
from noetl.events.projection.views import LoopProgress, StepRunView
from noetl.operations.attempt_shapes import StepSummary
from noetl.operations.comparisons import MOST_DIFFERENCES, MOST_OF_ONE, _step_pairs, differences, step_order
from noetl.operations.local import local_operations
from tests.cli.running import call
from tests.engine_script import playbook

GUESS = playbook(
    """
workload: {limit: 10, same: {x: 1}}
workflow:
  - step: start
    tool:
      name: measure
      kind: noop
      args: {value: "{{ workload.limit }}"}
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {seen: "{{ outcome.result.value }}"}}}}]}}
    next:
      arcs:
        - {step: high, when: "{{ workload.limit > 50 }}"}
        - {step: low}
  - {step: high, tool: {kind: noop, args: {said: high}}}
  - {step: low, tool: {kind: noop, args: {said: low}}}
"""
)


def test_values_are_compared_by_their_data() -> None:
    before = {"a": 1, "list": [1, 2], "same": {"x": 1}, "flag": True}
    after = {"a": 2, "list": [1, 3, 4], "same": {"x": 1}, "flag": 1}

    found = {one.path: one.values for one in differences(before, after)}

    assert found == {
        "a": {"before": 1, "after": 2},
        "list.1": {"before": 2, "after": 3},
        "list.2": {"after": 4},
        "flag": {"before": True, "after": 1},
    }
    assert differences({"a": [1]}, {"a": [1]}) == []


def test_the_number_of_differences_is_limited() -> None:
    many = list(range(1_000))

    found = differences(many, [n + 1 for n in many])

    assert len(found) == MOST_DIFFERENCES + 1
    assert found[-1].more == 1_000 - MOST_DIFFERENCES


def test_lists_of_different_lengths_are_one_difference_and_hide_no_later_step() -> None:
    rows = [{"id": n} for n in range(1_000)]
    before = {"read": {"rows": rows}, "convert": list(range(60)), "store": "stored"}
    after = {"read": {"rows": rows[:100]}, "convert": [-n - 1 for n in range(60)], "store": "refused"}

    found = differences(before, after)

    assert (found[0].path, found[0].entries, found[0].values) == ("read.rows", {"before": 1_000, "after": 100}, {})
    assert [one.path for one in found[1:3]] == ["convert.0", "convert.1"]
    assert [(one.path, one.more) for one in found if one.more] == [("convert", 60 - MOST_OF_ONE)]
    assert (found[-1].path, found[-1].values) == ("store", {"before": "stored", "after": "refused"})


def test_steps_are_compared_with_all_their_runs_together() -> None:
    def run(step: str, seconds: float, status: str = "done") -> StepRunView:
        return StepRunView(step=step, scheduled_at=90.0, started_at=100.0, finished_at=100.0 + seconds, status=status)

    going_on = StepRunView(step="new", scheduled_at=90.0, status="running")

    pairs = _step_pairs([run("load", 2), run("gone", 1)], [run("load", 3), run("load", 4, "failed"), going_on])

    assert [(one.step, one.change_s) for one in pairs] == [("load", 5.0), ("new", None), ("gone", None)]
    assert pairs[0].after == StepSummary(status="failed", duration_s=7.0, runs=2)
    assert (pairs[1].before, pairs[1].after) == (None, StepSummary(status="running", duration_s=None, runs=1))


def test_a_step_that_one_execution_skipped_keeps_its_place() -> None:
    rerun, whole = ["load", "report"], ["list", "load", "check", "report", "mail"]

    assert step_order([rerun, whole]) == whole


def test_a_compared_step_counts_its_failed_iterations() -> None:
    loop = LoopProgress(levels=[LoopLevel(total=40, done=33, failed=7)])
    run = StepRunView(step="load", scheduled_at=90.0, status="done", loop=loop)

    (pair,) = _step_pairs([], [run], unrun=({"load": 9}, {"load": 2}))

    assert pair.after is not None
    assert (pair.after.failed, pair.after.iterations, pair.after.unrun) == (7, 40, 2)


@pytest.mark.req("SRV-09")
async def test_two_executions_of_a_store_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    (tmp_path / "guess.yaml").write_text(GUESS)
    db = str(tmp_path / "noetl.db")
    for limit in (10, 90):
        arguments = ("run", "-q", str(tmp_path / "guess.yaml"), "--db", db, "--set", f"limit={limit}")
        assert (await asyncio.to_thread(call, *arguments))[0] == 0
    async with local_operations(db) as operations:
        after, before = await operations.store.executions()
        found = await operations.compare(after.execution_id)
        named = await operations.compare(after.execution_id, against=before.execution_id)
        alone = await operations.compare(before.execution_id)

    assert found == named
    assert found.before is not None
    assert (found.before.execution_id, found.before.status) == (before.execution_id, "completed")
    ran = [(one.step, one.before and one.before.status, one.after and one.after.status) for one in found.steps]
    assert ran == [("start", "done", "done"), ("high", None, "done"), ("low", "done", None)]
    assert [(one.path, one.values) for one in found.inputs] == [("limit", {"before": 10, "after": 90})]
    assert [(one.path, one.values) for one in found.variables] == [("seen", {"before": 10, "after": 90})]
    assert [one.path for one in found.results] == ["start.result.value", "low", "high"]
    assert (alone.before, alone.steps, alone.after.execution_id) == (None, [], before.execution_id)
