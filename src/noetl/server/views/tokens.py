"""The live tokens of an execution, with the rows of the store that say what they wait for."""

from __future__ import annotations

from noetl.engine.execution import Execution
from noetl.orchestrator import standing
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
