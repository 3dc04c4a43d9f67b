"""The live tokens of an execution and what runs beside them, with the rows of the store that say what they wait for."""

from __future__ import annotations

from noetl.control.views import side_run_views, token_views
from noetl.control.views.side_run_views import SideRunView as SideRunView
from noetl.control.views.token_views import TokenView as TokenView
from noetl.engine.execution import Execution
from noetl.server.services import Services
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
