"""Batch: what is decided in one breath, for one or several executions, and becomes one transaction."""

from __future__ import annotations

import msgspec

from noetl.engine.commands import Command, RecordReport
from noetl.engine.decision import CloseOrder, Decision, EndExecution
from noetl.engine.plan import Plan
from noetl.orchestrator.hot import Hot, HotExecutions
from noetl.orchestrator.orders import order_rows
from noetl.records.apart import set_apart
from noetl.records.envelope import Event
from noetl.store.contract import Commit, ExecutionRow


class Batch:
    """Decisions in the order they were made. `stopped` are orders that nobody wants any more, though somebody may be
    at work on them."""

    def __init__(self) -> None:
        self._decisions: dict[str, list[Decision]] = {}
        self.stopped: list[str] = []

    def add(self, execution_id: str, command: Command, decision: Decision) -> None:
        if not decision.events:
            return
        self._decisions.setdefault(execution_id, []).append(decision)
        reported = command.report.order_id if isinstance(command, RecordReport) else None
        closed = (effect for effect in decision.effects if isinstance(effect, CloseOrder))
        self.stopped += [one.order_id for one in closed if one.order_id != reported]

    @property
    def touched(self) -> list[str]:
        return list(self._decisions)

    def commits(self, hot: HotExecutions, now: float) -> list[Commit]:
        return [_commit(hot[execution_id], own, now) for execution_id, own in self._decisions.items()]

    def ended(self) -> list[str]:
        """The executions that are over with it."""
        return [
            execution_id
            for execution_id, own in self._decisions.items()
            if any(isinstance(effect, EndExecution) for decision in own for effect in decision.effects)
        ]


def _stored(event: Event, plan: Plan) -> Event:
    """The event as the log has it. What is too large goes to the results store first: here, so that whatever the
    payload is and whoever made it, no event names what is not there (RES-01, RES-03)."""
    payload = set_apart(event.payload, plan.inline_bytes, plan.keep)
    return event if payload is event.payload else msgspec.structs.replace(event, payload=payload)


def _commit(hot: Hot, decisions: list[Decision], now: float) -> Commit:
    execution = hot.execution
    effects = [effect for decision in decisions for effect in decision.effects]
    return Commit(
        after=hot.committed,
        execution=ExecutionRow(
            execution_id=execution.execution_id,
            trace_id=execution.trace_id,
            path=execution.path,
            name=hot.plan.net.name,
            net_hash=execution.net_hash,
            status=execution.status.value if execution.status else "paused" if execution.paused else "running",
            last_seq=execution.seq,
            created_at=hot.created_at,
            finished_at=execution.finished_at,
            parent_execution_id=execution.parent_execution_id,
        ),
        events=tuple(_stored(event, hot.plan) for decision in decisions for event in decision.events),
        orders=order_rows(execution.execution_id, effects, now=now),
        net=hot.plan.net_json() if hot.committed == 0 else None,
    )
