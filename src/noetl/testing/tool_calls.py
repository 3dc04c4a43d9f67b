"""Calling one tool as a worker does, without a playbook, a worker or a store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from noetl.base.clock import SystemClock
from noetl.events.outcomes import Outcome
from noetl.tools.contract import UNKNOWN, Tool, ToolContext
from noetl.worker.attempt import attempt


def tool_context(
    spec: Mapping[str, Any] | None = None, *, key: str = "exec/run/task/0", execution_id: str = "exec", **more: Any
) -> ToolContext:
    """A context with made-up names. `key` is the idempotency key; `more` are further fields of ToolContext."""
    return ToolContext(
        execution_id=execution_id,
        step="step",
        task="task",
        attempt=1,
        task_run_id="run",
        idempotency_key=key,
        spec=spec or {},
        name=lambda name: UNKNOWN,
        **more,
    )


async def outcome_of(
    tool: Tool, /, inputs: Mapping[str, Any], spec: Mapping[str, Any] | None = None, **more: Any
) -> Outcome:
    """The outcome that a worker would record of one attempt."""
    context = tool_context(spec, **more)
    return await attempt(tool, dict(inputs), context, clock=SystemClock(), sleep=asyncio.sleep, trace_id="trace")
