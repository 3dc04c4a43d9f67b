"""`noop`: it does nothing and succeeds, and carries policy (TOOL-08). With `args` its result is the rendered args."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.net.task import Task

KIND = "noop"


def noop_result(inputs: Mapping[str, Any]) -> Any:
    return inputs.get("args")


def keeps_prev(task: Task) -> bool:
    """Whether `_prev` stays as it was (PIPE-06). Args that turn out to be null are args, and their result is null."""
    return task.kind == KIND and (task.inputs.data or {}).get("args") is None
