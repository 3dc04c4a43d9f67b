"""A tool's answer that printed something."""

from __future__ import annotations

from noetl.tools.contract import ToolResult


def printing(stdout: str) -> ToolResult:
    return ToolResult(result=None, stdout=stdout)
