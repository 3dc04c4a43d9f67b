"""Kinds that use nothing outside of NoETL: `playbook`, `secrets`, `artifact`, `log` and `noop`.

`playbook` runs another playbook as a task (TOOL-11, O-08): it starts a child execution, which the server runs, and
waits for its end. `artifact` puts a value into the results store and returns its reference, or gets one (RES-02,
RES-05).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.engine.pipeline.preparation import noop_result
from noetl.events.outcomes import Reference
from noetl.tools.contract import Playbooks, Tool, ToolContext, ToolResult
from noetl.tools.kinds.storage import ARTIFACT_OPS

FAILED = "playbook.failed"
COMPENSATES = "compensates"  # an input that only compensations set; the checker refuses it in a playbook


class PlaybookTool(Tool):
    """The tool of the kind `playbook`."""

    waits = True  # its duration is that of the child: only its own `spec.timeout` limits it (O-33)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.playbooks is None:
            raise ToolError(FAILED, "no playbook can be started from here")
        if COMPENSATES in inputs:
            return await _compensate(context.playbooks, str(inputs[COMPENSATES]))
        payload = inputs.get("args") or {}
        if not isinstance(payload, dict):
            raise ToolError(FAILED, f"args must be a mapping, this is {type(payload).__name__}")
        version = inputs.get("version")
        wait = not context.spec.get("async")
        limit_s = _limit(context.spec.get("timeout")) if wait else None
        try:
            async with asyncio.timeout(limit_s):
                called = await context.playbooks.call(
                    str(inputs["path"]),
                    version=None if version is None else str(version),
                    payload=payload,
                    return_step=inputs.get("return_step"),
                    wait=wait,
                )
        except TimeoutError:
            await context.playbooks.give_up("the task that waited for it took too long")
            raise ToolError("timeout", f"the playbook took longer than {limit_s:g} s", retryable=True) from None
        if not wait:
            return ToolResult(result={"execution_id": called.execution_id})
        if called.status != "completed":
            raise _failure(str(inputs["path"]), called.execution_id, called.status, called.error)
        result = {"execution_id": called.execution_id, "status": called.status, "data": called.data}
        # Only for children that can be undone: the compensation of this task then undoes them (design.md §8).
        helpers = {"playbook": {"compensable": called.execution_id}} if called.compensable else {}
        return ToolResult(result=result, wrapped=True, helpers=helpers)


async def _compensate(playbooks: Playbooks, execution_id: str) -> ToolResult:
    called = await playbooks.compensate(execution_id)
    if called.status != "completed":
        raise _failure(f"the compensation of {execution_id}", called.execution_id, called.status, called.error)
    return ToolResult(result={"execution_id": called.execution_id, "status": called.status})


def _limit(timeout: Any) -> float | None:
    if isinstance(timeout, dict):
        timeout = timeout.get("total")
    try:
        return seconds(timeout) if timeout is not None else None
    except ValueError as problem:
        raise ToolError("tool.exception", str(problem)) from None


def _failure(path: str, execution_id: str, status: str, error: Any) -> ToolError:
    why = f": {error.kind}: {error.message}" if error is not None else ""
    details = error.readable() if error is not None else None
    return ToolError(
        FAILED, f'"{path}" {status}{why}', execution_id=execution_id, child_status=status, child_error=details
    )


# `secrets`: looks up one secret by name, or renews a keychain entry (TOOL-09, KEY-04).
#
# The result has the fields of `keychain.NAME`: `value` if the secret is one text. It is masked in everything that is
# recorded; later tasks of the same pipeline read the real value.

UNRESOLVED = "keychain.unresolved"


class SecretsTool(Tool):
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.secrets is None:
            raise ToolError(UNRESOLVED, "there is no keychain here")
        name = inputs.get("secret")
        if not isinstance(name, str) or not name:
            raise ToolError(UNRESOLVED, "secret must be the name of a secret")
        match inputs.get("op") or "get":
            case "get":
                lookup = _lookup(name, inputs)
                kind = str(inputs.get("provider") or "")
                return ToolResult(result=await context.secrets.get(name, kind=kind, lookup=lookup))
            case "refresh":
                await context.secrets.renew(name)
                return ToolResult(result={"refreshed": name})
            case other:
                raise ToolError(UNRESOLVED, f'op "{other}" is not known: write get or refresh')


def _lookup(name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    lookup = {key: inputs[key] for key in ("version", "auth") if inputs.get(key) is not None}
    return {**lookup, "path": name} if inputs.get("provider") == "file" else lookup


# `log`: one line in the execution's log, where `noetl logs` and the UI show it. The result has its fields.


class LogTool(Tool):
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        fields = {key: value for key, value in inputs.items() if value is not None}
        return ToolResult(result=fields, stdout=log_line(fields))


def log_line(fields: Mapping[str, Any]) -> str:
    """The log line: the message, then all other inputs by name."""
    message = fields.get("message")
    first = [] if message is None else [message if isinstance(message, str) else _json(message)]
    rest = [f"{key}={_json(value)}" for key, value in fields.items() if key != "message"]
    return " ".join([*first, *rest])


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


# `noop` for workers: `spec: {place: worker}`, or in a pipeline with other tools (TOOL-08).


class NoopTool(Tool):
    is_instant = True

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(result=noop_result(inputs))


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


# References as playbooks pass them on: a mapping, or the key as text. They are checked before anything is opened.
#
# Artifacts are stored under the hash of their content (reliability.md §2.5): any other key, such as a path, is refused
# here, and a loaded value is checked against the hash.


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
