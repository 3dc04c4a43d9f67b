"""`noop`: it does nothing and succeeds, and carries policy (TOOL-08). With `args` its result is the rendered args."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KIND = "noop"


def noop_result(inputs: Mapping[str, Any]) -> Any:
    return inputs.get("args")


def keeps_prev(kind: str, inputs: Mapping[str, Any]) -> bool:
    """Whether `_prev` stays as it was (PIPE-06)."""
    return kind == KIND and inputs.get("args") is None
