"""Calling a tool as a worker does, with made-up surroundings."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.base.clock import SystemClock
from noetl.events.outcomes import Outcome
from noetl.tools.contract import UNKNOWN, Tool, ToolContext
from noetl.worker.attempt import attempt


def context(spec: dict[str, Any] | None = None, *, key: str = "exec/run/task/0", **more: Any) -> ToolContext:
    return ToolContext(
        execution_id="exec",
        step="step",
        task="task",
        attempt=1,
        task_run_id="run",
        idempotency_key=key,
        spec=spec or {},
        name=lambda name: UNKNOWN,
        **more,
    )


async def outcome_of(tool: Tool, /, inputs: dict[str, Any], spec: dict[str, Any] | None = None, **more: Any) -> Outcome:
    """The outcome a worker would record."""
    return await attempt(
        tool, inputs, context(spec, **more), clock=SystemClock(), sleep=asyncio.sleep, trace_id="trace"
    )
