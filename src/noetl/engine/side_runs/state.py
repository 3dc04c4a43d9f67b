"""The state of side runs: what a step run without a token is for, what can be undone, which events are to be heard."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from noetl.events.cases import OwnEvent
from noetl.events.compensation import CompensationRegistered, Surrounding
from noetl.events.outcomes import Error


class SideRunKind(StrEnum):
    COMPENSATION = "compensation"
    HANDLER = "handler"
    ASYNC = "async"


class SideRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a step run without a token is for. `of` is the registration it undoes, or the step run it belongs to;
    `index` and `event` are of handlers, the rest of tasks that nobody waits for; `tolerated`: their failure is."""

    kind: SideRunKind
    of: str
    index: int = 0
    event: OwnEvent | None = None
    interrupting: bool = False
    task: str = ""
    task_run_id: str | None = None
    tolerated: bool = False
    around: tuple[Surrounding, ...] = ()


class PendingHandler(msgspec.Struct, frozen=True):
    """An event that a handler of a step run has to see."""

    owner: str
    handler: int
    event: OwnEvent


class Saga(msgspec.Struct, kw_only=True):
    """What can be undone, oldest first; what is to be undone now, in that order; the one that is being undone.
    `waiting` are tokens that go on afterwards; `error` is why the execution does not end as completed (SAGA-03).
    `jobs` are those that somebody was asked to cancel."""

    registered: dict[str, CompensationRegistered] = {}
    todo: dict[str, CompensationRegistered] = {}
    under_way: CompensationRegistered | None = None
    waiting: dict[str, None] = {}
    error: Error | None = None
    jobs: dict[str, None] = {}

    @property
    def is_busy(self) -> bool:
        return bool(self.todo) or self.under_way is not None
