"""The plug-in API: everything a package needs to provide a tool kind (TOOL-01, VAL-04).

    class AuditLogger:
        kind = ToolKind(name="audit_logger", inputs=(Input(name="message", required=True),))

        async def run(self, inputs, context): ...
        async def close(self): ...
        def helpers(self): ...

and in the package's `pyproject.toml`:

    [project.entry-points."noetl.tools"]
    audit_logger = "noetl_audit_logger:AuditLogger"

`examples/plugin` is a complete one. Mark an input that names credentials with `credential=True`: a worker receives the
credentials that its tasks name, and no others. A kind that marks none has them under `auth`, `credential` or
`credentials`. Before a tool opens a connection it calls `await context.addresses.address("what it is", host, port)`,
which refuses addresses that the operator does not allow, and connects to the address it gets. The names in this module
are stable; the modules behind them may move.
"""

from __future__ import annotations

from noetl.base.errors import ToolError
from noetl.net.kinds import Input, ToolKind
from noetl.tools.contract import UNKNOWN, Tool, ToolContext, ToolResult

__all__ = ["UNKNOWN", "Input", "Tool", "ToolContext", "ToolError", "ToolKind", "ToolResult"]
