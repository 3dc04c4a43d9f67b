"""Calling one tool as a worker does, without a playbook, a worker or a store.

For tools that connect there is a server that speaks no protocol: it says nothing, or one fixed answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
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


_CLOSING_S = 0.01  # the loop closes sockets a turn after it was told to


class Listener:
    """On a free port of loopback. `answer` is sent to whoever connects, who is then hung up on; without one it is
    silent, and waits for the other side to hang up."""

    def __init__(self, answer: bytes | None = None) -> None:
        self.answer = answer
        self.port = self.connections = 0
        self.accepted, self.left = asyncio.Event(), asyncio.Event()
        self.open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        self.accepted.set()
        with suppress(OSError):
            if self.answer is None:
                while await reader.read(1 << 16):
                    pass
            else:
                writer.write(self.answer)
                await writer.drain()
        self.left.set()
        self.open.discard(writer)
        writer.close()


@asynccontextmanager
async def listening(answer: bytes | None = None) -> AsyncIterator[Listener]:
    listener = Listener(answer)
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        for writer in listener.open:
            writer.transport.abort()  # whoever has not hung up is cut off
        await asyncio.sleep(_CLOSING_S)
