"""Starts: executions that are asked for at the same moment begin in one transaction (performance.md §2)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.decisions import Decisions
from noetl.control.commit.group_commit import GroupCommit
from noetl.engine.commands import StartExecution
from noetl.events.compensation import CompensationRegistered
from noetl.events.outcomes import Error
from noetl.events.rerun_state import RerunState
from noetl.net.net import Net
from noetl.store.contract import TakenError


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """An execution to begin; a nested one says whose child it is. `refused`: it ends where it begins (KEY-02).
    `held`: it begins paused, and this is why.
    One that `compensates` another only undoes what that one had registered. `carried`: it begins at a step, with what
    an earlier run had there."""

    net: Net
    execution_id: str
    trace_id: str
    payload: dict[str, Any]
    parent_execution_id: str | None = None
    parent_step_run_id: str | None = None
    depth: int = 0
    paused: bool = False
    held: str | None = None
    refused: Error | None = None
    compensates: str | None = None
    registrations: tuple[CompensationRegistered, ...] = ()
    carried: RerunState | None = None

    def command(self, at: float, net_hash: str, late_after_s: tuple[float, ...] = ()) -> StartExecution:
        return StartExecution(
            at=at,
            net_hash=net_hash,
            payload=self.payload,
            parent_execution_id=self.parent_execution_id,
            parent_step_run_id=self.parent_step_run_id,
            depth=self.depth,
            paused=self.paused,
            held=self.held,
            refused=self.refused,
            compensates=self.compensates,
            registrations=self.registrations,
            carried=self.carried,
            late_after_s=late_after_s,
        )


class Starts:
    def __init__(self, group_commit: GroupCommit, decisions: Decisions, clock: Clock) -> None:
        self._group_commit, self._decisions, self._clock = group_commit, decisions, clock

    async def begin(self, start: Start) -> None:
        """Return once it is durable."""

        async def begin_execution(batch: CommitBatch) -> None:
            loaded, now = self._decisions.loaded, self._clock.now()
            if start.execution_id in loaded:  # others wait for that one's end
                raise TakenError(f"execution {start.execution_id} exists already")
            new = loaded.begin(start.net, start.execution_id, start.trace_id, now, start.parent_execution_id)
            command = start.command(now, new.plan.net_hash, self._late_after(start))
            self._decisions.decide(batch, start.execution_id, command)
            crash_point("start.before_commit")

        await self._group_commit.decide_and_commit(begin_execution, gathers=True)
        crash_point("start.after_commit")

    def _late_after(self, start: Start) -> tuple[float, ...]:
        notices = self._decisions.notices
        return () if notices is None else notices.late_after(start.net, is_nested=start.parent_execution_id is not None)
