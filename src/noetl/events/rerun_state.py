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
    """A human task that a person had completed before the step was entered."""

    step: str
    title: str
    role: str | None = None  # whom it was for at that moment: a role or a user
    user: str | None = None
    completed_by: str
    approved_by: str | None = None  # who has approved it anew for other inputs; None: the inputs are the same


class KeptIterations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Iterations of the loop of `step` that were done: the new run takes their results and runs the others. `items` or
    `items_ref` is the collection they were of; `results` are plain data of each index."""

    step: str
    items: list[Any] | None = None
    items_ref: Reference | None = None
    indices: tuple[int, ...] = ()
    results: list[Any] = []


class RerunState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of an execution just before it last entered a step."""

    execution_id: str
    step: str
    at: int  # the `seq` of the event before it was entered
    args: dict[str, Any] = {}  # of the token that entered
    ctx: dict[str, Any] = {}
    results: tuple[CarriedResult, ...] = ()  # of steps that had ended
    approvals: tuple[Approval, ...] = ()  # what people had agreed to by then
    kept: KeptIterations | None = None  # of the loop of the step only those items run that had not been done
