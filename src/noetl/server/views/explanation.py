"""Explanation: why an execution is where it is, in plain sentences, each with what would move it."""

from __future__ import annotations

import msgspec

from noetl.control.claiming.order_needs import needs_of
from noetl.control.views.token_views import sentences_of
from noetl.engine.execution import Execution
from noetl.server.services import Services
from noetl.server.views.tokens import SideRunView, TokenView, side_runs_of, tokens_of
from noetl.server.worker_matching import crews_of
from noetl.store.contract import ExecutionRow, OrderState


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`sentences` say what holds it; `stuck` is true when nothing that is under way will move it by itself."""

    execution_id: str
    status: str
    stuck: bool
    sentences: list[str]
    tokens: list[TokenView]
    side_runs: list[SideRunView] = []


async def explained(services: Services, row: ExecutionRow, execution: Execution) -> Explanation:
    tokens = await tokens_of(services, execution)
    side_runs = await side_runs_of(services, execution)
    sentences, stuck = sentences_of(execution, tokens, side_runs), False
    if execution.is_open:
        nobodys = await _obstacles(services, execution)
        sentences += nobodys
        stuck = bool(nobodys) or execution.paused
    return Explanation(
        execution_id=row.execution_id,
        status=row.status,
        stuck=stuck,
        sentences=sentences,
        tokens=tokens,
        side_runs=side_runs,
    )


async def _obstacles(services: Services, execution: Execution) -> list[str]:
    """Why nobody takes orders of it that are ready, each reason once."""
    waiting = [row for row in await services.store.orders(execution.execution_id) if row.state is OrderState.READY]
    if not waiting:
        return []
    plan, crews = await services.executions.plan(execution.net_hash), await crews_of(services)
    found = {crews.of(row.pool).obstacle(needs_of(plan, execution, row.order_id)) for row in waiting}
    return sorted(why for why in found if why is not None)
