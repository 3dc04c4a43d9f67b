"""What a run from a step takes over from an earlier run of the same playbook (CLI-04).

It is kept whole in the new run's first event, so that the new log says by itself where its data comes from and is read
without the old one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.outcomes import TaskResult


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


class RerunState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of `execution_id` after its event `at`, just before it last entered `step`: variables, results of steps
    that had ended, and the arguments of the token that entered. `approvals` are what people had agreed to by then."""

    execution_id: str
    step: str
    at: int
    args: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    results: tuple[CarriedResult, ...] = ()
    approvals: tuple[Approval, ...] = ()
