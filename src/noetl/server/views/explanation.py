"""Explanation: why an execution is where it is, in plain sentences, each with what would move it."""

from __future__ import annotations

import msgspec

from noetl.clock import rfc3339
from noetl.engine.execution import Execution
from noetl.orchestrator.pools import EVERY
from noetl.server.services import Services
from noetl.server.views.tokens import TokenView, tokens_of
from noetl.server.workers import LIVE_S
from noetl.store.contract import DEFAULT_POOL, ExecutionRow

_FIRST = 20  # tokens told one by one


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`sentences` say what holds it; `stuck` is true when nothing that is under way will move it by itself."""

    execution_id: str
    status: str
    stuck: bool
    sentences: list[str]
    tokens: list[TokenView]


async def explained(services: Services, row: ExecutionRow, execution: Execution) -> Explanation:
    tokens = await tokens_of(services, execution)
    sentences, stuck = _ended(execution), False
    if execution.is_open:
        served = await _served(services)
        sentences = [_told(token) for token in tokens[:_FIRST]]
        if len(tokens) > _FIRST:
            sentences.append(f"{len(tokens) - _FIRST} more tokens are alive")
        wanted = {token.pool or DEFAULT_POOL for token in tokens if token.state == "queued"}
        idle = wanted - served if EVERY not in served else set()
        sentences += [f'no worker serves the pool "{pool}": noetl worker start --pool {pool}' for pool in sorted(idle)]
        if execution.paused:
            sentences.insert(0, f"it is paused: noetl resume {row.execution_id}")
        if row.wake_at is not None:
            sentences.append(f"time moves it next at {rfc3339(row.wake_at)}")
        stuck = bool(idle) or execution.paused
    return Explanation(
        execution_id=row.execution_id, status=row.status, stuck=stuck, sentences=sentences, tokens=tokens
    )


def _ended(execution: Execution) -> list[str]:
    if execution.status is None:
        return []
    told = [f"it is over: {execution.status.value}"]
    if execution.error is not None:
        told.append(f"it failed of {execution.error.kind}: {execution.error.message}")
    return told


def _told(token: TokenView) -> str:
    task = f", task {token.task}" if token.task and token.state == "running" else ""
    attempt = f", attempt {token.attempt}" if token.attempt and token.attempt > 1 else ""
    return f"step {token.step}{task}{attempt} is {token.state}: it waits for {token.waits_for}"


async def _served(services: Services) -> set[str]:
    """The pools that some worker serves at this moment."""
    now = services.clock.now()
    live = [row for row in await services.roster.list() if now - row.last_seen < LIVE_S]
    return {pool for row in live for pool in row.pools}
