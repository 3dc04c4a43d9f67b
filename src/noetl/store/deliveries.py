"""Rows of waits and human tasks, from what the engine says of them: in a commit as in a rebuilding the same."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.engine.decision import ChangeTask, CloseWait, Effect, OpenWait
from noetl.engine.execution import Execution
from noetl.engine.waits.state import OpenHumanTask, Wait
from noetl.store.human_tasks import TaskRow, TaskState
from noetl.store.waits import MESSAGE, SIGNAL, WaitRow, canonical

KINDS = (MESSAGE, SIGNAL)  # what somebody outside may end by its name


_OUTSIDE = frozenset({OpenWait, CloseWait, ChangeTask})
Rows = tuple[tuple[WaitRow, ...], tuple[str, ...], tuple[TaskRow, ...]]


def outside_rows(execution_id: str, effects: Sequence[Effect]) -> Rows:
    """Waits that are open after these effects, the ids of those that are over, and the tasks they change."""
    # Most commits have none of them, and this runs for every commit.
    if not [effect for effect in effects if type(effect) in _OUTSIDE]:
        return (), (), ()
    waits: dict[str, WaitRow] = {}
    closed: dict[str, None] = {}
    tasks: dict[str, TaskRow] = {}
    for effect in effects:
        match effect:
            case OpenWait():
                waits[effect.wait_id] = wait_row(execution_id, effect)
            case CloseWait():
                if waits.pop(effect.wait_id, None) is None:  # else nobody has seen it
                    closed[effect.wait_id] = None
            case ChangeTask():
                tasks[effect.task.task_id] = task_row(execution_id, effect.task)
            case _:
                pass
    return tuple(waits.values()), tuple(closed), tuple(tasks.values())


def waits_of(execution: Execution) -> list[WaitRow]:
    """The rows of its open waits."""
    waits = (wait for wait in execution.open_waits.waits.values() if wait.kind in KINDS)
    return [wait_row(execution.execution_id, wait) for wait in waits]


def tasks_of(execution: Execution) -> list[TaskRow]:
    return [task_row(execution.execution_id, task) for task in execution.open_waits.human_tasks.values()]


def wait_row(execution_id: str, wait: OpenWait | Wait) -> WaitRow:
    return WaitRow(
        wait_id=wait.wait_id,
        execution_id=execution_id,
        step_run_id=wait.step_run_id,
        kind=str(wait.kind),
        name=wait.name,
        correlation=canonical(wait.correlation),
        opened_at=wait.opened_at,
    )


def task_row(execution_id: str, task: OpenHumanTask) -> TaskRow:
    return TaskRow(
        task_id=task.task_id,
        execution_id=execution_id,
        step=task.step,
        step_run_id=task.step_run_id,
        state=TaskState(task.state.value),
        version=task.version,
        title=task.title,
        description=task.description,
        data=task.data,
        history=[msgspec.to_builtins(one) for one in task.history],
        role=task.role,
        user=task.user,
        form=msgspec.json.decode(msgspec.json.encode(task.form)),  # as a store gives it back
        claimed_by=task.claimed_by,
        completed_by=task.completed_by,
        result=task.result,
        created_at=task.created_at,
        due_at=task.due_at,
        overdue=task.overdue,
        escalated=task.escalated,
        ended_at=task.ended_at,
    )
