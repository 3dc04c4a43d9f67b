"""Child processes of one tool: each is kept for the execution that used it, and killed as a group.

A child is never used for another execution: what one execution left in its memory stays out of reach of the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.child_process import Child, Program

_IDLE = 4


class ChildPool:
    """Idle and busy children of one program. Only a few idle ones are kept."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._idle: list[tuple[str, Child]] = []
        self._busy: set[Child] = set()
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def child(self, execution_id: str) -> AsyncIterator[Child]:
        """A child for one call. A child whose call did not end (cancelled, timed out) is killed."""
        child = await self._take(execution_id)
        try:
            yield child
        finally:
            await self._give_back(execution_id, child)

    async def call(self, execution_id: str, request: dict[str, Any]) -> dict[str, Any]:
        """The answer of a child, without its error: that is raised as ToolError."""
        async with self.child(execution_id) as child:
            answer = await child.call(request)
        if (error := answer.get("error")) is not None:
            raise ToolError(error.pop("kind"), error.pop("message"), **error)
        return answer

    async def _take(self, execution_id: str) -> Child:
        owners = [owner for owner, _ in self._idle]
        if execution_id in owners:
            _, child = self._idle.pop(owners.index(execution_id))
        else:
            child = await Child.start(self._program)
        self._busy.add(child)
        return child

    async def _give_back(self, execution_id: str, child: Child) -> None:
        self._busy.discard(child)
        if not child.usable:
            await child.kill()
            return
        self._idle.append((execution_id, child))
        while len(self._idle) > _IDLE:
            await self._idle.pop(0)[1].kill()

    def release(self, execution_id: str) -> None:
        """This execution is over: its children end."""
        for child in [child for owner, child in self._idle if owner == execution_id]:
            ending = asyncio.ensure_future(child.kill())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
        self._idle = [(owner, child) for owner, child in self._idle if owner != execution_id]

    async def close(self) -> None:
        await asyncio.gather(*self._ending)
        children = [*self._busy, *(child for _, child in self._idle)]
        self._idle, self._busy = [], set()
        for child in children:
            await child.kill()
