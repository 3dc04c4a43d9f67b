"""Position: where a pipeline stands, so that another worker can go on from there (WRK-04, PIPE-01)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.cases import CasePosition
from noetl.events.outcomes import TaskResult


class Position(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """`task` is the one to run next, None at the end. `visit` counts arrivals at tasks, over the whole pipeline, so
    that visit and attempt name one task run; `runs` counts task runs against the budget (PIPE-07).
    `case` and `pages`, the responses that are collected, are of v2-case."""

    task: str | None
    visit: int = 1
    attempt: int = 1
    runs: int = 0
    not_before: float = 0.0  # the end of the delay before a retry
    iter: dict[str, Any] = {}  # what policies have set with `set_iter`
    prev: TaskResult | None = None  # `_prev` of the next task
    results: dict[str, TaskResult] = {}  # by task; of a task that ran several times, the last
    case: CasePosition | None = None
    pages: tuple[TaskResult, ...] = ()
