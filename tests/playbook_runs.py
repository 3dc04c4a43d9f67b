"""Running whole playbooks in a test: memory store, manual clock, tools that answer by a script.

`kind: python` tasks are answered by the script, so that a test says what a tool gives without running one; delays move
the clock instead of waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from noetl.base.clock import ManualClock
from noetl.base.errors import ToolError
from noetl.events.envelope import Event
from noetl.events.tasks import TaskProcessed
from noetl.operations.embedded import RunResult, run_net
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.registry import Registry
from tests.engine_script import net_of


class Scripted:
    """Answers each task by name, one answer per run, the last one forever. Exceptions are raised, functions called."""

    def __init__(self, **answers: Any) -> None:
        self._answers = {name: list(given) if isinstance(given, list) else [given] for name, given in answers.items()}
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return self.answer(inputs, context)

    def answer(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self.calls.append((context.task_run.task, dict(inputs)))
        answers = self._answers.get(context.task_run.task, [None])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if callable(answer):
            answer = answer(inputs, context)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ToolResult) else ToolResult(result=answer)

    async def close(self) -> None: ...

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {"py": {"exception": None}}

    def inputs_of(self, task: str) -> list[dict[str, Any]]:
        return [inputs for name, inputs in self.calls if name == task]


def broken(kind: str = "py.exception", message: str = "it broke", **details: Any) -> ToolError:
    return ToolError(kind, message, **details)


class Ran(msgspec.Struct):
    """A finished run and everything it left."""

    result: RunResult
    events: list[Event]
    tool: Scripted
    slept: list[float]

    def types(self) -> list[str]:
        return [event.event_type for event in self.events]

    def payloads(self, event_type: str) -> list[Any]:
        return [event.payload for event in self.events if event.event_type == event_type]

    def trace(self) -> list[tuple[str, str]]:
        """Each processed task and what its policy said."""
        processed: Sequence[TaskProcessed] = self.payloads("task.processed")
        return [(one.task, one.decision.do) for one in processed]


def run_here(text: str, payload: dict[str, Any] | None = None, *, tool: Scripted | None = None, **answers: Any) -> Ran:
    """Run a playbook to its end in memory, with scripted python tasks."""
    tool = tool or Scripted(**answers)
    clock, events, slept = ManualClock(), list[Event](), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))
        clock.advance(seconds)
        await asyncio.sleep(0)

    running = run_net(
        net_of(text),
        payload=payload or {},
        db=":memory:",
        watch=events.extend,
        tools=Registry({"python": tool}),
        clock=clock,
        sleep=sleep,
    )
    return Ran(asyncio.run(running), events, tool, slept)
