"""The state of side runs: what a step run without a token is for, what can be undone, which events are to be heard."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from noetl.events.outcomes import Error
from noetl.events.side_runs import CompensationRegistered, Surrounding
from noetl.events.v2_case_positions import OwnEvent


class SideRunKind(StrEnum):
    COMPENSATION = "compensation"
    HANDLER = "handler"
    ASYNC = "async"


class SideRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a step run without a token is for."""

    kind: SideRunKind
    of: str  # the registration it undoes, or the step run it belongs to
    # Of handlers: which one of the step it is, and the event it handles.
    index: int = 0
    event: OwnEvent | None = None
    interrupting: bool = False  # the step run was stopped when it began
    # Of tasks that nobody waits for.
    task: str = ""
    task_run_id: str | None = None  # the one that was accepted, and goes on here
    tolerated: bool = False  # its failure does not fail the execution
    around: tuple[Surrounding, ...] = ()  # the iterations it was started in


class PendingHandler(msgspec.Struct, frozen=True):
    """An event that a handler of a step run has to see."""

    owner: str
    handler: int
    event: OwnEvent


class Saga(msgspec.Struct, kw_only=True):
    """What can be undone, and what is being undone. One thing at a time: compensations may depend on each other."""

    registered: dict[str, CompensationRegistered] = {}  # what can be undone, the oldest first
    todo: dict[str, CompensationRegistered] = {}  # what is to be undone now, in that order
    under_way: CompensationRegistered | None = None
    waiting: dict[str, None] = {}  # tokens that go on afterwards
    error: Error | None = None  # why the execution does not end as completed (SAGA-03)
    jobs: dict[str, None] = {}  # of providers, that somebody was asked to cancel

    @property
    def is_busy(self) -> bool:
        return bool(self.todo) or self.under_way is not None
