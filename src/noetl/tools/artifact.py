"""`artifact`: puts a value into the results store and returns its reference, or gets one (RES-02, RES-05)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.events.outcomes import Reference
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.kinds.storage import ARTIFACT_OPS

_TEXT = "text/plain"
_KEY = re.compile(r"(?:[0-9a-f]{2}/)?([0-9a-f]{64})(?:\.(?:json|parquet))?\Z")
_ADDRESS = re.compile(r"noetl://([\w.-]+)/(.+)\Z")


class ArtifactTool(Tool):
    """The tool of the kind `artifact`."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        op = inputs.get("op") or ("put" if "data" in inputs else "get")
        match ARTIFACT_OPS.get(str(op)):
            case "put":
                return ToolResult(result=_put(inputs, context))
            case "get":
                return ToolResult(result=_get(inputs, context))
            case _:
                raise ToolError("artifact.input", f'op "{op}" is not known: write get or put')


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
    return part_of(loaded_value(inputs["ref"], context), inputs.get("range"))


# References as playbooks hand them round: a mapping, or the key as text, read strictly before anything is opened.
#
# Artifacts are key_match by the hash of their content (reliability.md §2.5): a key that is anything else, such as a
# path, is refused here, and what is loaded is checked against the hash.


def reference_of(value: Any) -> Reference:
    """The reference in `value`, as text or mapping. Raises ToolError `artifact.input` for anything else."""
    if isinstance(value, str):
        match = _ADDRESS.match(value)
        value = {"store": match[1], "key": match[2]} if match else {"key": value}
    if not isinstance(value, Mapping):
        raise ToolError("artifact.input", f"ref must be a reference, not {type(value).__name__}")
    store, key = str(value.get("store", "")), str(value.get("key", ""))
    key_match = _KEY.match(key)
    if key_match is None:
        where = f' of store "{store}"' if store else ""
        raise ToolError("artifact.input", f'"{key}"{where} is not an artifact: its key is not the hash of a content')
    try:
        fields = {"store": store, "key": key, "checksum": key_match[1], "size": 0, **_reference_fields(value)}
        return msgspec.convert(fields, Reference)
    except msgspec.ValidationError as problem:
        raise ToolError("artifact.input", f"the reference is incomplete: {problem}") from None


def _reference_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in Reference.__struct_fields__ if value.get(name) is not None}


def reference_row(reference: Reference) -> dict[str, Any]:
    """A reference as a result, with the keys of RES-02."""
    fields = {name: getattr(reference, name) for name in Reference.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not None}


def loaded_value(value: Any, context: ToolContext) -> Any:
    """The value of a reference. The store raises ToolError `result.missing` or `result.corrupt`."""
    reference = reference_of(value)
    if context.results.load is None:
        raise ToolError("result.missing", "there is no results store here")
    return part_of(context.results.load(reference), reference.range)


def store_value(value: Any, context: ToolContext) -> Reference:
    if context.results.keep is None:
        raise ToolError("artifact.input", "there is no results store here")
    return context.results.keep(value)


def part_of(value: Any, requested: Any) -> Any:
    """A part of a list or text: "10-19" counts from zero and includes both ends; {offset, limit} means the same."""
    if requested is None:
        return value
    first, last = _ends(requested)
    if not isinstance(value, list | str):
        raise ToolError("artifact.input", f"a range needs a list or a text, and this is {type(value).__name__}")
    return value[first : None if last is None else last + 1]


def _ends(requested: Any) -> tuple[int, int | None]:
    if isinstance(requested, Mapping):
        offset, limit = requested.get("offset", 0), requested.get("limit")
        if _is_count(offset) and (limit is None or _is_count(limit)):
            return offset, None if limit is None else offset + limit - 1
    elif match := re.fullmatch(r"\s*(\d{1,15})\s*-\s*(\d{1,15})?\s*", str(requested)):
        return int(match[1]), int(match[2]) if match[2] else None
    raise ToolError("artifact.input", f'"{requested}" is not a range: write "0-99", or {{offset: 0, limit: 100}}')


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
