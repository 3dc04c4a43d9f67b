"""`gcs`: the `storage` tool for one bucket of Google Cloud Storage, by bucket and object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.storage.tool import StorageTool


class GcsTool(StorageTool):
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await super().run(storage_inputs(inputs), context)


def storage_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The same request, as `storage` takes it. ToolError `storage.input` says what is missing."""
    op, auth = str(inputs.get("op") or ""), inputs.get("auth")
    source, destination = inputs.get("source"), inputs.get("destination")
    if op == "put" and "data" not in inputs:
        op = "upload"
    if op == "upload":
        if not source:
            raise ToolError("storage.input", 'upload needs "source": a file in a data folder')
        return {"op": "copy", "url": f"file:{source}", "target": {"url": _object(inputs, destination), "auth": auth}}
    if op == "download":
        if not destination:
            raise ToolError("storage.input", 'download needs "destination": a file in a data folder')
        return {"op": "copy", "url": _object(inputs, source), "target": f"file:{destination}", "auth": auth}
    kept = {name: inputs[name] for name in ("data", "media_type", "format") if name in inputs}
    return {"op": op, "url": _object(inputs, source), "auth": auth, **kept}


def _object(inputs: Mapping[str, Any], url: Any) -> str:
    if inputs.get("bucket"):
        return f"gs://{inputs['bucket']}/{inputs.get('object') or ''}"
    if isinstance(url, str) and url.startswith(("gs://", "gcs://")):
        return url
    raise ToolError("storage.input", '"bucket" is missing')
