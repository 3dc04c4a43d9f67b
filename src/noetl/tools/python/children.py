"""The children of one worker: which execution each serves, and when it ends (design.md §8).

A child serves one execution and is reused for its further tasks, never for another. Idle ones end with their
execution, after a while, or when there are many.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from noetl.tools.python.process import PythonChild
from noetl.tools.python.template import HAS_TEMPLATES, TemplateClient, TemplateGoneError
from noetl.tools.sandbox import Sandbox

IDLE_S = 60.0  # how long an idle child is kept
MOST_IDLE = 32  # and how many of them, over all executions
_CHANCES = 3  # templates that may break before children are started without


class Idle(NamedTuple):
    execution_id: str
    since: float  # by the loop's clock


class PythonChildren:
    def __init__(self, *, idle_s: float = IDLE_S, most_idle: int = MOST_IDLE, template: bool = HAS_TEMPLATES) -> None:
        self._idle_s, self._most_idle = idle_s, most_idle
        self._all: set[PythonChild] = set()
        self._idle: dict[PythonChild, Idle] = {}  # longest idle first
        self._ending: set[asyncio.Task[None]] = set()
        self._sweep_due: asyncio.TimerHandle | None = None
        self._template: asyncio.Task[TemplateClient] | None = None
        self._chances = _CHANCES if template else 0

    async def take(
        self, execution_id: str, *, fresh: bool, sandbox: Sandbox | None = None, folder: Path | None = None
    ) -> PythonChild:
        """A child that is nobody else's until it is given back. One in a sandbox is always a fresh one, and has
        `folder` for its files."""
        if sandbox is not None:
            apart = await PythonChild.start(None, sandbox, folder)
            self._all.add(apart)
            return apart
        if not fresh and (child := self._idle_one(execution_id)) is not None:
            return child
        child = await self._born()
        self._all.add(child)
        return child

    async def give_back(self, execution_id: str, child: PythonChild, *, fresh: bool) -> None:
        if fresh or not child.usable:
            self._end(child)
            await child.wait_ended()  # the task is over when its process is
            return
        loop = asyncio.get_running_loop()
        self._idle[child] = Idle(execution_id, loop.time())
        while len(self._idle) > self._most_idle:
            self._end(next(iter(self._idle)))
        if self._sweep_due is None:
            self._sweep_due = loop.call_later(self._idle_s, self._sweep)

    def release(self, execution_id: str) -> None:
        """This execution is over: its children end."""
        for child in [child for child, idle in self._idle.items() if idle.execution_id == execution_id]:
            self._end(child)

    async def close(self) -> None:
        """End them all, and the template, and wait until they are gone."""
        if self._sweep_due is not None:
            self._sweep_due.cancel()
        for child in list(self._all):
            self._end(child)
        await asyncio.gather(*self._ending)
        if self._template is not None:
            template, self._template = self._template, None
            with suppress(OSError):
                await (await template).close()

    def _idle_one(self, execution_id: str) -> PythonChild | None:
        """The one that was used last: what it has in its caches is warm."""
        for child in [child for child, idle in reversed(self._idle.items()) if idle.execution_id == execution_id]:
            del self._idle[child]
            if child.usable:
                return child
            self._end(child)
        return None

    async def _born(self) -> PythonChild:
        if self._chances:
            if self._template is None:
                self._template = asyncio.ensure_future(TemplateClient.start())
            starting = self._template
            try:
                # Shielded: a task that is cancelled must not end the template that others wait for.
                return await PythonChild.start(await asyncio.shield(starting))
            except (TemplateGoneError, OSError):
                self._template_broke(starting)
        return await PythonChild.start(None)

    def _template_broke(self, broken: asyncio.Task[TemplateClient]) -> None:
        if self._template is broken:
            if broken.exception() is None and not broken.result().gone:
                return  # it was only busy
            self._template = None
            self._chances -= 1

    def _sweep(self) -> None:
        """End those that have been idle for long."""
        loop = asyncio.get_running_loop()
        while self._idle and next(iter(self._idle.values())).since + self._idle_s <= loop.time():
            self._end(next(iter(self._idle)))
        self._sweep_due = None
        if self._idle:
            due = next(iter(self._idle.values())).since + self._idle_s
            self._sweep_due = loop.call_at(due, self._sweep)

    def _end(self, child: PythonChild) -> None:
        self._idle.pop(child, None)
        self._all.discard(child)
        child.kill()
        ending = asyncio.ensure_future(child.wait_ended())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
