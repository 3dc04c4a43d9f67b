"""Shapes of the API about attempts of tasks and what they were given; as in `api_shapes`."""

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


class InputDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Where two inputs differ (`args.rows.3.total`). What is not there on one side is no member of `values`."""

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
    differences: list[InputDifference] | None = None
