"""Fakes: what answers in the place of a tool. A fake is a value, a list of answers, an exception or a function.

A function is called with the rendered inputs of the task, and may be `async`. Of a list, each run takes one answer,
and the last one stays. A tool of one's own (with `run` and `close`) is taken as it is.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.testing.virtual_time import working
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.http.problems import is_retryable
from noetl.tools.registry import Registry

_STATUS = re.compile(r"\b[45]\d\d\b")


class FakeCall(msgspec.Struct, frozen=True):
    """One run of a faked tool: which task of which step, and with what."""

    kind: str
    task: str
    inputs: dict[str, Any]


class FakeTool:
    def __init__(self, kind: str, fake: Any, calls: list[FakeCall], helpers: dict[str, dict[str, Any]]) -> None:
        self._kind, self._calls, self._helpers = kind, calls, helpers
        self._fake = fake
        self._answers = list(fake) if isinstance(fake, list) else [fake]

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self._calls.append(FakeCall(self._kind, context.task, dict(inputs)))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if callable(answer) and not isinstance(answer, type):
            answer = answer(dict(inputs))
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
            raise _as_the_tool_would(answer) if isinstance(answer, ToolError) else answer
        return answer if isinstance(answer, ToolResult) else ToolResult(result=answer)

    async def close(self) -> None:
        """Nothing is held."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return self._helpers


def _as_the_tool_would(error: ToolError) -> ToolError:
    """An `http.status` error always has a status: `ToolError("http.status", "503")` has it in its message. Rules read
    it as `outcome.http.status`, and whether it is worth a retry follows from it."""
    status = error.details.get("status") or next(iter(_STATUS.findall(error.message)), None)
    if error.kind != "http.status" or status is None:
        return error
    details = {"headers": {}, "data": None, **error.details, "status": int(str(status))}
    retryable = error.retryable or is_retryable(int(str(status)))
    return ToolError(error.kind, error.message, retryable=retryable, **details)


class RealTool:
    """A tool that does real work, in the loop's real time."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        with working():
            return await self._tool.run(inputs, context)

    async def close(self) -> None:
        with working():
            await self._tool.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return self._tool.helpers()

    def release(self, execution_id: str) -> None:
        if (release := getattr(self._tool, "release", None)) is not None:
            release(execution_id)


# These do no work of their own: they answer at once, or wait for others in virtual time.
_AT_ONCE = frozenset({"noop", "playbook"})


class TestTools(Registry):
    """Fakes where there are some, else the real tools."""

    __test__ = False  # for pytest, which takes every class so called for tests

    def __init__(self, fakes: Mapping[str, Any], real: Registry) -> None:
        self.calls: list[FakeCall] = []
        made: dict[str, Tool] = {kind: self._faked(kind, fake, real) for kind, fake in fakes.items()}
        super().__init__(made, permissions=real.permissions)

    def _faked(self, kind: str, fake: Any, real: Registry) -> Tool:
        is_tool = hasattr(fake, "run") and hasattr(fake, "close") and hasattr(fake, "helpers")
        tool: Tool = fake if is_tool else FakeTool(kind, fake, self.calls, real.helpers(kind))
        return tool

    def refusal(self, kind: str) -> str | None:
        return None if isinstance(self._paths.get(kind), FakeTool) else super().refusal(kind)

    def _make(self, kind: str) -> Tool:
        tool = super()._make(kind)
        return tool if kind in _AT_ONCE or not isinstance(self._paths.get(kind, ""), str) else RealTool(tool)
