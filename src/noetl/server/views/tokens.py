"""The live tokens of an execution and what runs beside them, with the rows of the store that say what they wait for."""

from __future__ import annotations

from noetl.engine.execution import Execution
from noetl.orchestrator import errand_views, standing
from noetl.orchestrator.errand_views import ErrandView as ErrandView
from noetl.orchestrator.standing import TokenView as TokenView
from noetl.server.services import Services
from noetl.store.tasks import TaskState


async def tokens_of(services: Services, execution: Execution) -> list[TokenView]:
    """All live tokens, the oldest first."""
    store, execution_id = services.store, execution.execution_id
    states = (TaskState.OPEN, TaskState.CLAIMED)
    return standing.tokens_of(
        execution,
        await store.orders(execution_id),
        await store.waits.of(execution_id),
        await store.tasks.list(states=states, execution_id=execution_id),
    )


async def errands_of(services: Services, execution: Execution) -> list[ErrandView]:
    """What runs beside the tokens, the oldest first, and what is to be undone after that."""
    if not execution.errands and execution.saga is None:
        return []
    orders = await services.store.orders(execution.execution_id)
    return errand_views.errands_of(execution, orders, services.clock.now())
