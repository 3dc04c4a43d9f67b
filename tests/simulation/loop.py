"""An event loop with virtual time, whose callbacks belong to nodes: simulated processes that can be killed or frozen.

Time passes only when nothing is left to do at a moment, so an hour takes as long as its work does. A node is known by
the context of its callbacks. Those of a dead node are kept back forever, those of a frozen one until it thaws: a crash
or a freeze can hit every await of a node, and no clean-up code runs that a killed process would not have run.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVarTuple, Unpack


class StuckError(Exception):
    """Nothing is scheduled any more, and what is waited for has not happened."""


class Node:
    """A simulated process. `context` is for the tasks that run in it."""

    def __init__(self, name: str) -> None:
        self.name, self.is_dead, self.is_frozen = name, False, False
        self.held: list[Callable[[], None]] = []  # callbacks held back while it was frozen
        self.context = copy_context()
        self.context.run(_node.set, self)

    def __repr__(self) -> str:
        return self.name


_node: ContextVar[Node | None] = ContextVar("node", default=None)


def current_node() -> Node | None:
    return _node.get()


class _NoFiles(selectors.DefaultSelector):
    """Waiting for files is how a loop lets time pass; here it moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StuckError("nothing will ever happen again")
        self.now += max(0.0, timeout)
        return []


Args = TypeVarTuple("Args")


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._no_files = _NoFiles()
        self.is_ending = False  # every node runs, so that all tasks can end
        self._holding: set[Node] = set()
        super().__init__(self._no_files)

    def time(self) -> float:
        return self._no_files.now

    def call_soon(
        self, callback: Callable[[Unpack[Args]], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        context = context if context is not None else copy_context()
        node = context.get(_node)
        if node is None:
            return super().call_soon(callback, *args, context=context)
        handle: list[asyncio.Handle] = []
        made = super().call_soon(self._run_in, node, callback, args, handle, context=context)
        handle.append(made)
        return made

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        context = context if context is not None else copy_context()
        node = context.get(_node)
        if node is None:
            return super().call_at(when, callback, *args, context=context)
        handle: list[asyncio.Handle] = []
        made = super().call_at(when, self._run_in, node, callback, args, handle, context=context)
        handle.append(made)
        return made

    def _run_in(self, node: Node, callback: Any, args: tuple[Any, ...], handle: list[asyncio.Handle]) -> None:
        if self.is_ending or not (node.is_dead or node.is_frozen):
            callback(*args)
            return
        context = copy_context()
        node.held.append(lambda: None if handle[0].cancelled() else context.run(callback, *args))
        self._holding.add(node)

    def freeze(self, node: Node, seconds: float) -> None:
        """As SIGSTOP does, and SIGCONT after so long."""
        if not node.is_frozen:
            node.is_frozen = True
            self.call_later(seconds, self._thaw, node, context=Context())

    def _thaw(self, node: Node) -> None:
        node.is_frozen = False
        held, node.held = node.held, []
        for run in held:
            self.call_soon(run, context=node.context.copy())

    def end(self) -> None:
        """Cancel all tasks, and close. Held-back callbacks run now: a task whose next step never runs could not be
        cancelled."""
        self.is_ending = True
        for node in sorted(self._holding, key=lambda one: one.name):
            self._thaw(node)
        tasks = asyncio.all_tasks(self)
        for _ in range(5):
            for task in tasks:
                task.cancel()
            waiting = asyncio.wait(tasks, timeout=60.0) if tasks else asyncio.sleep(0)
            self.run_until_complete(waiting)
            tasks = asyncio.all_tasks(self)
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # typeshed leaves it out
        self.close()
