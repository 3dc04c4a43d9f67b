"""Where an execution stands, and why: its live tokens, what runs beside them, and what would move it, in sentences.

Made of its state and of the rows of the store that say what it waits for, in the same way for a server and for a store
of this machine. Which workers could take its orders only a server knows, and tells as `obstacles`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.control.views import side_run_views, token_views
from noetl.control.views.side_run_views import SideRunView
from noetl.control.views.token_views import TokenView, sentences_of
from noetl.engine.execution import Execution
from noetl.store.contract import ExecutionRow, Store
from noetl.store.human_tasks import TaskState


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`sentences` say what holds it; `stuck` is true when nothing that is under way will move it by itself."""

    execution_id: str
    status: str
    stuck: bool
    sentences: list[str]
    tokens: list[TokenView]
    side_runs: list[SideRunView] = []


async def live_tokens(store: Store, execution: Execution) -> list[TokenView]:
    """The oldest first."""
    execution_id, states = execution.execution_id, (TaskState.OPEN, TaskState.CLAIMED)
    return token_views.tokens_of(
        execution,
        await store.orders(execution_id),
        await store.waits.of(execution_id),
        await store.tasks.list(states=states, execution_id=execution_id),
    )


async def live_side_runs(store: Store, execution: Execution, now: float) -> list[SideRunView]:
    """What runs beside the tokens, the oldest first, and what is to be undone after that."""
    if not execution.side_work.step_runs and execution.side_work.saga is None:
        return []
    return side_run_views.side_runs_of(execution, await store.orders(execution.execution_id), now)


async def explanation_of(
    store: Store, row: ExecutionRow, execution: Execution, now: float, obstacles: Sequence[str] = ()
) -> Explanation:
    """`obstacles`: why nobody takes orders of it that are ready."""
    tokens, side_runs = await live_tokens(store, execution), await live_side_runs(store, execution, now)
    return Explanation(
        execution_id=row.execution_id,
        status=row.status,
        stuck=execution.is_open and (bool(obstacles) or execution.lifecycle.paused),
        sentences=[*sentences_of(execution, tokens, side_runs), *obstacles],
        tokens=tokens,
        side_runs=side_runs,
    )
