"""Jobs in a net: which task of a step submits one to a provider, that goes on when the task is over (QNT-01)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.net.net import Transition
from noetl.net.task import Task
from noetl.net.tasks import pipeline_of

KIND = "quantum"
_SUBMITS = (None, "submit", "run")


def submitting(step: Transition) -> Task | None:
    """The first task that submits a job, as it is written."""
    return next((task for task in pipeline_of(step) if task.kind == KIND and _op(task) in _SUBMITS), None)


def credential_of(task: Task) -> dict[str, Any]:
    """The input that names the credential of a task, as it is written."""
    return {key: value for key, value in _inputs(task).items() if key in ("auth", "credential")}


def _op(task: Task) -> object:
    return _inputs(task).get("op")


def _inputs(task: Task) -> Mapping[str, Any]:
    return task.inputs.data if isinstance(task.inputs.data, Mapping) else {}
