"""`log`: one line in the execution's log, where `noetl logs` and the UI show it. The result is what was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.tools.contract import ToolContext, ToolResult


class LogTool:
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        written = {key: value for key, value in inputs.items() if value is not None}
        return ToolResult(result=written, stdout=log_line(written))

    async def close(self) -> None:
        """Nothing is open."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


def log_line(written: Mapping[str, Any]) -> str:
    """The message, then everything else by name."""
    message = written.get("message")
    first = [] if message is None else [message if isinstance(message, str) else _json(message)]
    rest = [f"{key}={_json(value)}" for key, value in written.items() if key != "message"]
    return " ".join([*first, *rest])


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
