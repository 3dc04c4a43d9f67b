"""API shapes for attempts of tasks, their inputs, and comparisons of two attempts or two executions.

As in `api_shapes.py` the server writes them, the client reads them, `-o json` prints them.
"""

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
    """Attempts in the order in which they began. Pass `next` as `after` to read the following page; null on the
    last."""

    attempts: list[AttemptView]
    next: int | None


class ValueDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A place where two values differ (`args.rows.3.total`). A side without a value has no entry in `values`. `entries`
    has the lengths of two lists that differ by more than a few. `more` counts further differences below `path` that
    are not listed."""

    path: str
    values: dict[Literal["before", "after"], Any]
    entries: dict[Literal["before", "after"], int] | None = None
    more: int = 0


class AttemptInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of an attempt, rendered again from the log, with secrets as `***`. `unknown` says why they could not
    be rendered; `notes` are remarks for the reader. `before` is the attempt that they are compared with, and
    `before_execution_id` the execution of that attempt."""

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
    """All runs of a step in one execution: the status of the last run, the total duration of those that have ended, and
    how many iterations of its loops failed, or did not run to their end because the loop ended before."""

    status: str
    duration_s: float | None
    runs: int
    failed: int = 0
    unrun: int = 0
    iterations: int = 0


class ComparedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step in both executions, null where it did not run. `change_s` is the second duration minus the first."""

    step: str
    before: StepSummary | None
    after: StepSummary | None
    change_s: float | None


class ComparedExecution(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two executions. `version` is its version in the catalogue, null for a run from a file."""

    execution_id: str
    path: str
    version: int | None
    status: str
    created_at: str
    duration_s: float | None
    error: dict[str, Any] | None


class ExecutionComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between two executions, at most 200 of each kind and 25 of each name. `before` is null when there
    is no execution to compare with. Steps are compared by name, in the order in which they ran; `variables` are those
    that steps have set."""

    before: ComparedExecution | None
    after: ComparedExecution
    steps: list[ComparedStep] = []
    inputs: list[ValueDifference] = []
    variables: list[ValueDifference] = []
    results: list[ValueDifference] = []


class StepTestInputs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values that the templates of a step read: `args` of its token, `ctx`, `workload`, and `results` of other
    steps by name."""

    args: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    workload: dict[str, Any] = {}
    results: dict[str, Any] = {}


class RecordedInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a step read when it last ran in an execution. `hidden` names the steps whose results are too
    large for the answer, or deleted. A test based on that execution still reads those that are stored."""

    execution_id: str
    step: str
    inputs: StepTestInputs
    hidden: list[str] = []
