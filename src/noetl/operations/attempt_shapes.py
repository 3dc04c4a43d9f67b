"""Shapes of the API about attempts of tasks, what they and steps were given, and what differs between two of them or
between two executions; as in `api_shapes`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a task. `seq` is its `task.started`; `status`: running | success | error."""

    seq: int
    ts: str
    step: str
    task: str
    kind: str
    path: list[int]
    visit: int
    attempt: int
    task_run_id: str
    status: str = "running"


class AttemptPage(msgspec.Struct, frozen=True, kw_only=True):
    """In the order in which they began. `next` is what to give as `after` for those that follow, null at the end."""

    attempts: list[AttemptView]
    next: int | None


class ValueDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Where two values differ (`args.rows.3.total`). What is not there on one side is no member of `values`."""

    path: str
    values: dict[Literal["before", "after"], Any]


class AttemptInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a task was given: its inputs are rendered again from the log, with secrets as `***`. `unknown` says why they
    are not known; `notes` what else the reader should know of them. `before` is the attempt that they were compared
    with, and `before_execution_id` the execution it is of."""

    execution_id: str
    attempt: AttemptView
    inputs: dict[str, Any] | None
    spec: dict[str, Any]
    unknown: str | None = None
    notes: list[str] = []
    before: AttemptView | None = None
    before_execution_id: str | None = None
    differences: list[ValueDifference] | None = None


class StepSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of a step in one execution: the status of the last, the seconds of those that have ended, and how many
    of the iterations of its loops failed."""

    status: str
    duration_s: float | None
    runs: int
    failed: int = 0
    iterations: int = 0


class ComparedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step in both executions, null where it did not run. `change_s` is how much longer the second took."""

    step: str
    before: StepSummary | None
    after: StepSummary | None
    change_s: float | None


class ComparedExecution(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two. `version` is that of the catalogue, null for what was run from a file."""

    execution_id: str
    path: str
    version: int | None
    status: str
    created_at: str
    duration_s: float | None
    error: dict[str, Any] | None


class ExecutionComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two executions, at most 200 places of each kind. `before` is null where there was nothing to
    compare with. Steps are compared by name, in the order they came in; `variables` are those that steps have set."""

    before: ComparedExecution | None
    after: ComparedExecution
    steps: list[ComparedStep] = []
    inputs: list[ValueDifference] = []
    variables: list[ValueDifference] = []
    results: list[ValueDifference] = []


class StepTestInputs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the templates of a step read: `args` of its token, `ctx`, `workload`, and `results` of other steps by their
    names."""

    args: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    workload: dict[str, Any] = {}
    results: dict[str, Any] = {}


class RecordedInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a step read when it last ran in an execution. `hidden` are results of steps that are too large to be shown,
    or no longer kept; a test with that execution has them all the same, as far as they are kept."""

    execution_id: str
    step: str
    inputs: StepTestInputs
    hidden: list[str] = []
