"""`dask` and `ray`: one call of Python code on an existing cluster. Its result comes back as JSON, by value."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from noetl.base.errors import ToolError
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.input_shapes import UNRESOLVED, connection_fields, whole_number
from noetl.tools.interpreters import Answer, run_in_interpreter
from noetl.tools.sandbox import UNAVAILABLE

MAX_BYTES = 16 << 20
RUNNER = Path(__file__).with_name("cluster_runner.py")
_CONNECT_S = 30
_TLS = {"ca": "ca_file", "cert": "client_cert", "key": "client_key"}


class _ClusterTool(Tool):
    """The common part of both: a request, a remote client, a response."""

    kind_name: ClassVar[str]
    address_shape: ClassVar[str]  # of the credential's url
    schemes: ClassVar[tuple[str, ...]]

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        request = {**_call(inputs, context, f"{self.kind_name}.input"), **await self._cluster(inputs, context)}
        answer = await self._answered(request, context)
        if "result" not in answer.fields:
            raise ToolError(f"{self.kind_name}.error", "the client returned no result of the task")
        return ToolResult(result=answer.fields["result"], stdout=answer.ended.stdout)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the cluster takes the credential. Nothing runs on it."""
        request = {**await self._cluster(inputs, context), "checks": True}
        workers = (await self._answered(request, context)).fields.get("workers")
        if not isinstance(workers, int):
            raise ToolError(f"{self.kind_name}.error", "the client did not report what it connected to")
        return f"connected to the {self.kind_name} cluster at {request['address']}, which has {workers} workers"

    async def _answered(self, request: Mapping[str, Any], context: ToolContext) -> Answer:
        if context.permissions.sandbox:
            # Also on this machine: the client unpickles what comes back, and the code on the cluster can make it.
            message = "a cluster runs code without a sandbox, and this worker allows sandboxes only"
            raise ToolError(UNAVAILABLE, message)
        return await run_in_interpreter(self.kind_name, RUNNER, {**request, "kind": self.kind_name}, context)

    async def _cluster(self, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Where the cluster is: at the address that the policy has judged, not looked up again by the client."""
        fields = connection_fields(inputs.get("auth"), context, kind=self.kind_name, address="url")
        parts = urlsplit(str(fields.get("url") or ""))
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme not in self.schemes or not parts.hostname or port is None:
            raise ToolError(UNRESOLVED, f'"auth" does not say where the cluster is: "url" is {self.address_shape}')
        if parts.scheme == "tls" and (missing := [name for name in _TLS if not fields.get(name)]):
            raise ToolError(
                UNRESOLVED, f'the credential has no "{missing[0]}", which tls:// needs: ca, cert and key are PEM'
            )
        host = await context.addresses.address("the cluster", parts.hostname, port)
        tls = {_TLS[name]: str(fields[name]) for name in _TLS if fields.get(name)} if parts.scheme == "tls" else None
        shown = f"[{host}]" if ":" in host else host
        return {"address": f"{parts.scheme}://{shown}:{port}", "tls": tls, "connect_s": _CONNECT_S}


class DaskTool(_ClusterTool):
    kind_name, schemes, address_shape = "dask", ("tcp", "tls"), "tcp://host:8786 or tls://host:8786"


class RayTool(_ClusterTool):
    kind_name, schemes, address_shape = "ray", ("ray",), "ray://host:10001"


def _call(inputs: Mapping[str, Any], context: ToolContext, wrong: str) -> dict[str, Any]:
    code, args, needs = inputs.get("code"), inputs.get("args") or {}, inputs.get("needs") or {}
    if not isinstance(code, str) or not code.strip():
        raise ToolError(wrong, '"code" is missing')
    if not isinstance(args, Mapping) or not all(str(name).isidentifier() for name in args):
        raise ToolError(wrong, "args is a mapping of names to values")
    numbers = needs.values() if isinstance(needs, Mapping) else [needs]
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in numbers):
        raise ToolError(wrong, "needs is a mapping of a worker's resources to numbers, such as {GPU: 1}")
    return {
        "code": code,
        "function": str(inputs.get("function") or "main"),
        "args": dict(args),
        "needs": dict(needs),
        "retries": whole_number(inputs.get("retries"), "retries", 0, error=wrong, least=0, most=100),
        # The same for every attempt: one that comes while the cluster still runs the lost one waits for that.
        "key": f"noetl-{hashlib.sha256(context.task_run.idempotency_key.encode()).hexdigest()[:32]}",
        "max_bytes": MAX_BYTES,
    }
