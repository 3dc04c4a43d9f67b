"""The plug-in API: everything a package needs to bring a tool kind of its own (TOOL-01, VAL-04).

    class AuditLogger:
        kind = ToolKind(name="audit_logger", inputs=(Input(name="message", required=True),))

        async def run(self, inputs, context): ...
        async def close(self): ...
        def helpers(self): ...

and in the package's `pyproject.toml`:

    [project.entry-points."noetl.tools"]
    audit_logger = "noetl_audit_logger:AuditLogger"

`examples/plugin` is a whole one. An input that names credentials says so with `credential=True`: a worker gets those
that its tasks name, and no others; a kind that marks none has them under `auth`, `credential` or `credentials`. A tool
that opens a connection asks `await context.addresses.address("what it is", host, port)` first, which refuses what the
operator does not allow, and connects to the address it gets. The names here stay; the modules behind them may move.
"""

from __future__ import annotations

from noetl.base.errors import ToolError
from noetl.net.kinds import Input, ToolKind
from noetl.tools.contract import UNKNOWN, Tool, ToolContext, ToolResult

__all__ = ["UNKNOWN", "Input", "Tool", "ToolContext", "ToolError", "ToolKind", "ToolResult"]
