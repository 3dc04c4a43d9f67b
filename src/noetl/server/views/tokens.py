"""The live tokens of an execution and what runs beside them, with the rows of the store that say what they wait for;
and why it is where it is, in plain sentences, each with what would move it."""

from __future__ import annotations

import msgspec

from noetl.control.claiming.order_needs import needs_of
from noetl.control.views import side_run_views, token_views
from noetl.control.views.side_run_views import SideRunView as SideRunView
from noetl.control.views.token_views import TokenView as TokenView
from noetl.control.views.token_views import sentences_of
from noetl.engine.execution import Execution
from noetl.server.services import Services
from noetl.server.worker_matching import crews_of
from noetl.store.contract import ExecutionRow, OrderState
from noetl.store.human_tasks import TaskState


async def tokens_of(services: Services, execution: Execution) -> list[TokenView]:
    """All live tokens, the oldest first."""
    store, execution_id = services.store, execution.execution_id
    states = (TaskState.OPEN, TaskState.CLAIMED)
    return token_views.tokens_of(
        execution,
        await store.orders(execution_id),
        await store.waits.of(execution_id),
        await store.tasks.list(states=states, execution_id=execution_id),
    )


async def side_runs_of(services: Services, execution: Execution) -> list[SideRunView]:
    """What runs beside the tokens, the oldest first, and what is to be undone after that."""
    if not execution.side_runs and execution.saga is None:
        return []
    orders = await services.store.orders(execution.execution_id)
    return side_run_views.side_runs_of(execution, orders, services.clock.now())


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
