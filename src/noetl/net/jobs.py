"""Jobs in a net: which task of a step submits one to a provider, that goes on when the task is over (QNT-01)."""

from __future__ import annotations

from typing import Any

from noetl.net.net import Transition
from noetl.net.task import Task
from noetl.net.tasks import pipeline_of


def submitting_task(step: Transition) -> Task | None:
    """The first task that submits a job, as it is written."""
    return next((task for task in pipeline_of(step) if task.submits_job), None)


def credential_input(task: Task) -> dict[str, Any]:
    """The input that names the credential of a task, as it is written."""
    inputs = task.inputs.data if isinstance(task.inputs.data, dict) else {}
    return {key: value for key, value in inputs.items() if key in ("auth", "credential")}
