"""Execution: the state of one run, as its log tells it (EVT-07).

`evolve` alone changes it, in place, so that an event costs the same however long the history is. The marking is the
truth: an execution is open while it holds a token, and what must happen next stands in `agenda`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from noetl.records.events import Final
from noetl.records.outcomes import Error, TaskResult
from noetl.records.position import Position


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """The event on which a step's arcs are evaluated; also the event that produced a token."""

    name: str
    step: str
    event_id: str
    result: TaskResult | None = None
    error: Error | None = None


class Token(msgspec.Struct, kw_only=True):
    """A token that has not been consumed; `event_id` is its `token.created`."""

    token_id: str
    step: str
    args: dict[str, Any]
    event_id: str
    source: Boundary | None = None


class StepRun(msgspec.Struct, kw_only=True):
    """One consumption of a token. `order_id` None: decided in the server. `in_task`: its task has been started and not
    processed. `ended` is set until its arcs are settled."""

    step_run_id: str
    token_id: str
    step: str
    args: dict[str, Any]
    token_meta: dict[str, Any]
    event_id: str
    position: Position
    order_id: str | None = None
    worker_id: str | None = None
    lease_epoch: int = 0
    in_task: bool = False
    started_at: float | None = None
    timeout_s: float | None = None
    deadline_s: float | None = None
    ended: Boundary | None = None


class Due(StrEnum):
    """What the state itself asks for next."""

    ADMIT = "admit"  # a token waits at its step
    RUN = "run"  # a step run is decided in the server
    ROUTE = "route"  # a step run has ended


class Execution(msgspec.Struct, kw_only=True):
    """State after event `seq`. `agenda` maps token and step run ids to what is due, in the order it came due.

    `orders` leads from an open order to its step run; `closed` keeps the epoch under which an order ended, to tell
    a repeated report from a fenced one. `written_by` names the event that last wrote a key of `ctx` (SCOPE-07).
    """

    execution_id: str
    trace_id: str
    seq: int = 0
    last_event_id: str | None = None
    path: str = ""
    version: str | None = None
    net_hash: str = ""
    request: dict[str, Any] = {}
    started_at: float | None = None
    workload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    written_by: dict[str, str] = {}
    tokens: dict[str, Token] = {}
    runs: dict[str, StepRun] = {}
    agenda: dict[str, Due] = {}
    orders: dict[str, str] = {}
    closed: dict[str, int] = {}
    results: dict[str, TaskResult] = {}
    ends: dict[str, TaskResult] = {}
    step_runs: int = 0
    error: Error | None = None
    status: Final | None = None
    finished_at: float | None = None

    @property
    def is_open(self) -> bool:
        return self.status is None

    def run_of(self, order_id: str) -> StepRun | None:
        step_run_id = self.orders.get(order_id)
        return self.runs[step_run_id] if step_run_id is not None else None
