"""Side runs at a worker: which tasks one has (SAGA-01, ADV-01, TOOL-12)."""

from __future__ import annotations

import msgspec

from noetl.events.orders import Order
from noetl.net.net import Transition
from noetl.net.task import Task
from noetl.net.tasks import credential_input, submitting_task, tasks_of
from noetl.templates.authored import Authored

PLAYBOOK = "playbook"
COMPENSATES = "compensates"  # the input of a playbook task that undoes an execution instead of starting one


def part_of(step: Transition, order: Order) -> tuple[Task, ...]:
    """The tasks of an order: the step's pipeline, or those of its side run."""
    side_run = order.side_run
    if side_run is None:
        return step.tasks
    if side_run.child is not None:
        return (Task(name=PLAYBOOK, kind=PLAYBOOK, inputs=Authored({COMPENSATES: side_run.child})),)
    if side_run.job_id is not None:
        return (_cancelling(step, side_run.job_id),)
    part, _, index = side_run.part.partition("/")
    match part:
        case "compensation":
            assert step.compensation is not None
            return step.compensation.tasks
        case "handlers":
            assert step.handlers is not None
            return step.handlers.handlers[int(index)].tasks
        case _:
            return tuple(_alone(task) for task in tasks_of(step) if task.name == order.position.task)[:1]


def _cancelling(step: Transition, job_id: str) -> Task:
    """Cancels a job of the step, with the credential that it was submitted with."""
    task = submitting_task(step)
    assert task is not None
    inputs = Authored(credential_input(task))
    return Task(name=task.kind, kind=task.kind, inputs=inputs, verbatim={"op": "cancel", "job_id": job_id})


def _alone(task: Task) -> Task:
    """A task that nobody waits for: its policy has judged that it was accepted (TOOL-12)."""
    spec = task.spec.data if isinstance(task.spec.data, dict) else {}
    waited_for = Authored({key: value for key, value in spec.items() if key != "async"})
    return msgspec.structs.replace(task, policy=None, repeat=(), spec=waited_for)
