"""Timeouts: the `timeout` block of a step, whatever the step is doing when it runs out (TMR-05)."""

from __future__ import annotations

from noetl.base.ids import derived
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.pipeline.lifetimes import timed_out
from noetl.engine.plan import Plan
from noetl.engine.side_runs.endings import stop_handlers
from noetl.engine.waits.wait_end import close_waits
from noetl.engine.withdrawal import close_orders
from noetl.events.steps import StepFailed
from noetl.events.waits import StepTimeout


def expire(plan: Plan, execution: Execution, run: StepRun, at: float) -> Decision:
    """`ignore` only tells; `fail` fails the step; `alternative` stops it and its token goes another way."""
    timeout = plan.step(run.step).timeout
    assert timeout is not None, "only a step with a timeout times out"
    draft = Draft(execution, at, derived(run.step_run_id, "timeout"))
    if timeout.on_timeout != "ignore":
        stop(draft, execution, run)
    told = StepTimeout(action=timeout.on_timeout, alternative=timeout.alternative)
    event = draft.add(told, run=run, parent_id=run.event_id)
    if timeout.on_timeout == "fail":
        draft.add(StepFailed(error=timed_out(run.step)), run=run, on_behalf=True, parent_id=event.event_id)
    return draft.decision()


def stop(draft: Draft, execution: Execution, run: StepRun) -> None:
    """Nobody works or waits for this step run any more: its orders and its waits are closed."""
    if run.ended is None:
        close_orders(draft, run)
    close_waits(draft, execution, run)
    if execution.side_work.step_runs:
        stop_handlers(draft, execution, run.step_run_id)
