"""`dask`: one call of Python code on an existing Dask cluster. Its result comes back as JSON, by value."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from noetl.base.errors import ToolError
from noetl.tools.auth_shapes import UNRESOLVED, connection_fields
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.interpreters import answered_by

INPUT = "dask.input"
RUNNER = Path(__file__).with_name("runner.py")
MAX_BYTES = 16 << 20
_CONNECT_S = 30
_TLS = {"ca": "ca_file", "cert": "client_cert", "key": "client_key"}


class DaskTool:
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        request = {**_call(inputs, context), **await _cluster(inputs, context)}
        answer = await answered_by("dask", RUNNER, request, context)
        if "result" not in answer.fields:
            raise ToolError("dask.error", "the client did not tell what the task gave")
        return ToolResult(result=answer.fields["result"], stdout=answer.ended.stdout)

    async def close(self) -> None:
        """Nothing is open between tasks."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


def _call(inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    code, args, resources = inputs.get("code"), inputs.get("args") or {}, inputs.get("needs") or {}
    if not isinstance(code, str) or not code.strip():
        raise ToolError(INPUT, '"code" is missing')
    if not isinstance(args, Mapping) or not all(str(name).isidentifier() for name in args):
        raise ToolError(INPUT, "args is a mapping of names to values")
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in dict(resources).values())
    if not isinstance(resources, Mapping) or not numbers:
        raise ToolError(INPUT, "needs is a mapping of a worker's resources to numbers, such as {GPU: 1}")
    return {
        "code": code,
        "function": str(inputs.get("function") or "main"),
        "args": dict(args),
        "resources": dict(resources),
        "retries": _retries(inputs.get("retries")),
        # The same for every attempt: one that comes while the cluster still runs the lost one waits for that.
        "key": f"noetl-{hashlib.sha256(context.idempotency_key.encode()).hexdigest()[:32]}",
        "max_bytes": MAX_BYTES,
    }


def _retries(written: Any) -> int:
    if written is None:
        return 0
    if isinstance(written, bool) or not isinstance(written, int) or not 0 <= written <= 100:
        raise ToolError(INPUT, f'retries "{str(written)[:50]}" is not a number from 0 to 100')
    return written


async def _cluster(inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Where the scheduler is: at the address that the policy has judged, not looked up again by the client."""
    fields = connection_fields(inputs.get("auth"), context, kind="dask", address="url")
    parts = urlsplit(str(fields.get("url") or ""))
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("tcp", "tls") or not parts.hostname or port is None:
        raise ToolError(UNRESOLVED, '"auth" does not say where the scheduler is: "url" is tcp://host:8786 or tls://…')
    host = await context.addresses.address("the scheduler", parts.hostname, port)
    tls = {_TLS[name]: str(fields[name]) for name in _TLS if fields.get(name)} if parts.scheme == "tls" else None
    shown = f"[{host}]" if ":" in host else host
    return {"address": f"{parts.scheme}://{shown}:{port}", "tls": tls, "connect_s": _CONNECT_S}
