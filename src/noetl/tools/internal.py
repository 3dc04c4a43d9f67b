"""Kinds that use nothing outside of NoETL: `playbook`, `secrets`, `log` and `noop`.

`playbook` runs another playbook as a task (TOOL-11, O-08): it starts a child execution, which the server runs, and
waits for its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.engine.pipeline.preparation import noop_result
from noetl.tools.contract import Playbooks, Tool, ToolContext, ToolResult

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
