"""`noop` for workers: `spec: {place: worker}`, or in a pipeline with other tools (TOOL-08)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.engine.pipeline.preparation import noop_result
from noetl.tools.contract import ToolContext, ToolResult


class NoopTool:
    is_instant = True

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(result=noop_result(inputs))

    async def close(self) -> None:
        """Nothing is open."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}
