"""A server in the test that answers for the tools of other processes, by execution."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.testing.tool_conformance import tool_context
from noetl.tools.contract import ToolResult
from tests.placements.cases import Case
from tests.placements.process import LATER, YOURSELF
from tests.playbook_runs import Scripted
from tests.servers.http import Reply, Request, reply


class Desk:
    """Answers `{execution_id, kind, task, attempt, inputs}`: not yet, do it yourself, or what a script says. An
    unknown execution while none is being started is a nested one: its tools are real."""

    def __init__(self) -> None:
        self._scripts: dict[str, tuple[tuple[str, ...], Scripted]] = {}
        self._starting = 0

    @contextmanager
    def starting(self) -> Iterator[None]:
        """As long as an execution may run whose id the test does not know yet."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    def open(self, execution_id: str, case: Case) -> Scripted:
        script = case.script()
        self._scripts[execution_id] = (case.kinds, script)
        return script

    def answer(self, request: Request) -> Reply:
        asked = msgspec.json.decode(request.body)
        execution_id, may_be_named = asked["execution_id"], self._starting > 0  # looked at first: naming comes before
        if execution_id not in self._scripts:
            return reply(LATER if may_be_named else YOURSELF)
        kinds, script = self._scripts[execution_id]
        if asked["kind"] not in kinds:
            return reply(YOURSELF)
        return reply(json=_told(script, asked))


def _told(script: Scripted, asked: dict[str, Any]) -> dict[str, Any]:
    context = tool_context(task=asked["task"], step=asked["step"], attempt=asked["attempt"])
    try:
        result: ToolResult = script.answer(asked["inputs"], context)
    except ToolError as problem:
        return {"error": {"kind": problem.kind, "message": problem.message, "details": problem.details}}
    return {"result": result.result, "wrapped": result.wrapped, "helpers": result.helpers}


async def gathered(work: Sequence[Callable[[], Awaitable[Any]]], at_once: int) -> list[Any]:
    """All of it, so much at a time."""
    gate = asyncio.Semaphore(at_once)

    async def one(begin: Callable[[], Awaitable[Any]]) -> Any:
        async with gate:
            return await begin()

    return await asyncio.gather(*(one(each) for each in work))
