"""Child processes of the `duckdb` tool: kept for the execution that used them, killed as a group."""

from __future__ import annotations

import asyncio

from noetl.tools.child_process import Child, Program

_DUCKDB = Program(module="noetl.tools.duckdb.child", name="DuckDB", error="duckdb.error")
_IDLE = 4


class DuckdbChildren:
    """Idle children and their executions: one is never used for another execution. Only a few are kept."""

    def __init__(self) -> None:
        self._idle: list[tuple[str, Child]] = []
        self._busy: set[Child] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def take(self, execution_id: str) -> Child:
        owners = [owner for owner, _ in self._idle]
        if execution_id in owners:
            _, child = self._idle.pop(owners.index(execution_id))
        else:
            child = await Child.start(_DUCKDB)
        self._busy.add(child)
        return child

    async def give_back(self, execution_id: str, child: Child) -> None:
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
