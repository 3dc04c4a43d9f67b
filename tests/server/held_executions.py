"""An execution that waits for a worker, and a wait for its status."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.server.talking import Talk

HELD = """
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: work}]}
  - step: work
    tool: [{name: work, kind: python, code: "result = 1"}]
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop}
"""


async def until_status(talk: Talk, execution_id: str, status: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while (view := await talk.get(f"/api/executions/{execution_id}"))["status"] != status:
            await asyncio.sleep(0.02)
    found: dict[str, Any] = view
    return found
