"""Explanation: why an execution is where it is, in plain sentences, each with what would move it."""

from __future__ import annotations

import msgspec

from noetl.engine.execution import Execution
from noetl.orchestrator.pools import EVERY
from noetl.orchestrator.standing import sentences_of
from noetl.server.services import Services
from noetl.server.views.tokens import TokenView, tokens_of
from noetl.server.workers import LIVE_S
from noetl.store.contract import DEFAULT_POOL, ExecutionRow


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`sentences` say what holds it; `stuck` is true when nothing that is under way will move it by itself."""

    execution_id: str
    status: str
    stuck: bool
    sentences: list[str]
    tokens: list[TokenView]


async def explained(services: Services, row: ExecutionRow, execution: Execution) -> Explanation:
    tokens = await tokens_of(services, execution)
    sentences, stuck = sentences_of(execution, tokens), False
    if execution.is_open:
        served = await _served(services)
        wanted = {token.pool or DEFAULT_POOL for token in tokens if token.state == "queued"}
        idle = wanted - served if EVERY not in served else set()
        sentences += [f'no worker serves the pool "{pool}": noetl worker start --pool {pool}' for pool in sorted(idle)]
        stuck = bool(idle) or execution.paused
    return Explanation(
        execution_id=row.execution_id, status=row.status, stuck=stuck, sentences=sentences, tokens=tokens
    )


async def _served(services: Services) -> set[str]:
    """The pools that some worker serves at this moment."""
    now = services.clock.now()
    live = [row for row in await services.roster.list() if now - row.last_seen < LIVE_S]
    return {pool for row in live for pool in row.pools}
