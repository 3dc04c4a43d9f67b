"""The waits of a step run that nobody needs any more, told to whoever keeps them (TMR-04)."""

from __future__ import annotations

from noetl.engine.decision import ChangeTask, CloseWait, Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.waits.human_tasks import withdrawn
from noetl.engine.waits.state import WaitKind
from noetl.events.waits import TimerCancelled


def close_waits(
    draft: Draft, execution: Execution, run: StepRun, *, parent_id: str | None = None, came: str | None = None
) -> None:
    """Withdraw the open waits of `run`; `came` is the one that has ended by itself."""
    for kind, wait_id in run.step_waits.open.items():
        wait = execution.open_waits.waits[wait_id]
        if kind in (WaitKind.MESSAGE, WaitKind.SIGNAL):
            draft.add_effect(CloseWait(wait_id))
        elif wait_id == came:
            continue
        elif kind is WaitKind.TIMER:
            cancelled = TimerCancelled(wait_id=wait_id, timer_id=wait.name, withdrawn=True)
            draft.add(cancelled, run=run, parent_id=parent_id or wait.event_id)
        else:
            draft.add_effect(ChangeTask(withdrawn(execution.open_waits.human_tasks[wait_id], draft.at)))
