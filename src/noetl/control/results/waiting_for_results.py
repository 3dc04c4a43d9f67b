"""Orders whose executions need a value from outside before anything can be decided upon them.

A claim goes on without them. They are offered again when the value is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from noetl.base.errors import BackendError
from noetl.control.claiming.ready_orders import Ready
from noetl.control.results.result_cache import ResultNotLoadedError

_PAUSE_S = 1.0  # when the store of results is away


class WaitingForResults:
    """`come_back` offers orders again."""

    def __init__(self, come_back: Callable[[Iterable[Ready]], None]) -> None:
        self._come_back = come_back
        self._orders: dict[str, dict[str, Ready]] = {}  # by execution and order
        # The event loop keeps weak references to tasks only.
        self._tasks: set[asyncio.Task[None]] = set()

    def takes(self, ready: Ready) -> bool:
        """Whether the order is one of these, and is kept here."""
        if not self._orders or (waiting := self._orders.get(ready.execution_id)) is None:
            return False
        # Other orders of the same execution would need the same value: they wait together, without a request each.
        waiting[ready.order_id] = ready
        return True

    def lay_aside(self, ready: Ready, away: ResultNotLoadedError) -> None:
        self._orders.setdefault(ready.execution_id, {})[ready.order_id] = ready
        task = asyncio.ensure_future(self._fetch_then_requeue(ready.execution_id, away))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch_then_requeue(self, execution_id: str, away: ResultNotLoadedError) -> None:
        try:
            await away.fetch()
        except BackendError:
            await asyncio.sleep(_PAUSE_S)  # the next claim finds out whether the store is back
        self._come_back(self._orders.pop(execution_id, {}).values())

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
