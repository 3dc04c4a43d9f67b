"""`snowflake`: the `sql` tool for Snowflake, with its warehouse, schema and role as inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.registry import is_installed
from noetl.tools.sql.tool import SqlTool

if not is_installed("snowflake"):  # the child imports it; say so before there is one
    raise ImportError("snowflake-sqlalchemy is not installed")


class SnowflakeTool(SqlTool):
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await super().run({"dialect": "snowflake", **inputs}, context)
