"""`artifact`: puts a value into the results store and gives its reference, or gets one back (RES-02, RES-05)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.artifact.references import loaded, part_of, reference_row, store_value
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.kinds.storage import ARTIFACT_OPS

_TEXT = "text/plain"


class ArtifactTool:
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        op = inputs.get("op") or ("put" if "data" in inputs else "get")
        match ARTIFACT_OPS.get(str(op)):
            case "put":
                return ToolResult(result=_put(inputs, context))
            case "get":
                return ToolResult(result=_get(inputs, context))
            case _:
                raise ToolError("artifact.input", f'op "{op}" is not known: write get or put')

    async def close(self) -> None:
        """Nothing is open."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


def _put(inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    if "data" not in inputs:
        raise ToolError("artifact.input", 'op put needs "data"')
    data = inputs["data"]
    reference = store_value(data, context)
    if media_type := inputs.get("media_type") or (_TEXT if isinstance(data, str) else None):
        reference = msgspec.structs.replace(reference, media_type=str(media_type))
    label = inputs.get("key")
    return reference_row(reference) | ({"label": str(label)} if label is not None else {})


def _get(inputs: Mapping[str, Any], context: ToolContext) -> Any:
    if inputs.get("ref") is None:
        raise ToolError("artifact.input", 'op get needs "ref": the reference that op put, or {{ step.ref }}, gave')
    return part_of(loaded(inputs["ref"], context), inputs.get("range"))
