"""The state of side runs: their purpose, registered compensations, and events that wait for handlers."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from noetl.events.outcomes import Error
from noetl.events.side_runs import CompensationRegistered, Surrounding
from noetl.events.v2_case_positions import OwnEvent


class SideRunKind(StrEnum):
    """Why a side run exists."""

    COMPENSATION = "compensation"
    HANDLER = "handler"
    ASYNC = "async"


class SideRun(msgspec.Struct, frozen=True, kw_only=True):
    """The purpose of a step run that has no token."""

    kind: SideRunKind
    of: str  # the registration it undoes, or the step run it belongs to
    # Of handlers: the index within the step, and the event that it handles.
    index: int = 0
    event: OwnEvent | None = None
    interrupting: bool = False  # its start stopped the body of the step run
    # Of asynchronous tasks.
    task: str = ""
    task_run_id: str | None = None  # the one that was accepted, and goes on here
    tolerated: bool = False  # its failure does not fail the execution
    around: tuple[Surrounding, ...] = ()  # the iterations it was started in


class PendingHandler(msgspec.Struct, frozen=True):
    """An event that waits for a handler of a step run."""

    owner: str
    handler: int
    event: OwnEvent


class Saga(msgspec.Struct, kw_only=True):
    """Compensations of one execution. They run one at a time, since they may depend on each other."""

    registered: dict[str, CompensationRegistered] = {}  # can be requested, the oldest first
    todo: dict[str, CompensationRegistered] = {}  # requested and not started, in the order in which they run
    under_way: CompensationRegistered | None = None  # runs now
    waiting: dict[str, None] = {}  # tokens that continue when all are done
    error: Error | None = None  # why the execution does not end as completed (SAGA-03)
    jobs: dict[str, None] = {}  # jobs at providers whose cancellation was requested

    @property
    def is_busy(self) -> bool:
        return bool(self.todo) or self.under_way is not None
