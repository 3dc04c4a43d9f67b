"""Starts: executions that are asked for at the same moment begin in one transaction (PERFORMANCE §2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from noetl.engine.commands import StartExecution
from noetl.net.net import Net
from noetl.records.outcomes import Error


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """An execution to begin; a nested one says whose child it is. `refused`: it ends where it begins (KEY-02)."""

    net: Net
    execution_id: str
    trace_id: str
    payload: dict[str, Any]
    parent_execution_id: str | None = None
    parent_step_run_id: str | None = None
    depth: int = 0
    paused: bool = False
    refused: Error | None = None

    def command(self, at: float, net_hash: str) -> StartExecution:
        return StartExecution(
            at=at,
            net_hash=net_hash,
            payload=self.payload,
            parent_execution_id=self.parent_execution_id,
            parent_step_run_id=self.parent_step_run_id,
            depth=self.depth,
            paused=self.paused,
            refused=self.refused,
        )


class Starts:
    """`store` begins several at once, all or none of them."""

    def __init__(self, store: Callable[[Sequence[Start]], Awaitable[None]]) -> None:
        self._store = store
        self._waiting: list[tuple[Start, asyncio.Future[None]]] = []

    async def begin(self, start: Start) -> None:
        """Return once it is durable."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((start, begun))
        await asyncio.sleep(0)  # whoever else asks at this moment has had their word then
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            await self._begin(waiting)
        await begun

    async def _begin(self, waiting: list[tuple[Start, asyncio.Future[None]]]) -> None:
        try:
            await self._store([start for start, _ in waiting])
        except BaseException as problem:
            if len(waiting) > 1 and isinstance(problem, Exception):
                for one in waiting:  # one of them spoils it for all: each on its own
                    await self._begin([one])
                return
            for _, begun in waiting:
                if not begun.done():
                    begun.set_exception(problem)
            return
        for _, begun in waiting:
            if not begun.done():
                begun.set_result(None)
