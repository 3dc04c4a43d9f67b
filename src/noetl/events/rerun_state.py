"""What a run from a step takes over from an earlier run of the same playbook (CLI-04).

It is kept whole in the new run's first event, so that the new log says by itself where its data comes from and is read
without the old one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.outcomes import TaskResult
from noetl.events.references import Reference


class CarriedResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    step: str
    result: TaskResult


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A human task that a person had completed before the step was entered. `role` or `user`: whom it was for at that
    moment. `approved_by`: who has approved it anew for other inputs, None where the inputs are the same."""

    step: str
    title: str
    role: str | None = None
    user: str | None = None
    completed_by: str
    approved_by: str | None = None


class KeptIterations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Iterations of the loop of `step` that were done: the new run takes their results and runs the others. `items` or
    `items_ref` is the collection they were of; `results` are plain data of each index."""

    step: str
    items: list[Any] | None = None
    items_ref: Reference | None = None
    indices: tuple[int, ...] = ()
    results: list[Any] = []


class RerunState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of `execution_id` after its event `at`, just before it last entered `step`: variables, results of steps
    that had ended, and the arguments of the token that entered. `approvals` are what people had agreed to by then.
    `kept`: of the loop of the step only those items run that had not been done."""

    execution_id: str
    step: str
    at: int
    args: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    results: tuple[CarriedResult, ...] = ()
    approvals: tuple[Approval, ...] = ()
    kept: KeptIterations | None = None
