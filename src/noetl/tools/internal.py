"""Kinds that reach nothing outside of NoETL: `playbook`, another playbook as a task (TOOL-11, O-08), which starts a
child and waits while the server does the rest; `secrets`, `log` and `noop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.engine.pipeline.preparation import noop_result
from noetl.tools.contract import Playbooks, ToolContext, ToolResult

FAILED = "playbook.failed"
COMPENSATES = "compensates"  # set by compensations alone: it is no input that a playbook may write


class PlaybookTool:
    waits = True  # its time is its child's: no limit but its own `spec.timeout` (O-33)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.playbooks is None:
            raise ToolError(FAILED, "no playbook can be started from here")
        if COMPENSATES in inputs:
            return await _compensated(context.playbooks, str(inputs[COMPENSATES]))
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
            raise _failed(str(inputs["path"]), called.execution_id, called.status, called.error)
        result = {"execution_id": called.execution_id, "status": called.status, "data": called.data}
        # told only of children that can be undone: whoever compensates this task then undoes them (design.md §8)
        helpers = {"playbook": {"compensable": called.execution_id}} if called.compensable else {}
        return ToolResult(result=result, wrapped=True, helpers=helpers)

    async def close(self) -> None:
        """Nothing is open: children belong to the server."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


async def _compensated(playbooks: Playbooks, execution_id: str) -> ToolResult:
    called = await playbooks.compensate(execution_id)
    if called.status != "completed":
        raise _failed(f"the compensation of {execution_id}", called.execution_id, called.status, called.error)
    return ToolResult(result={"execution_id": called.execution_id, "status": called.status})


def _limit(written: Any) -> float | None:
    if isinstance(written, dict):
        written = written.get("total")
    try:
        return seconds(written) if written is not None else None
    except ValueError as problem:
        raise ToolError("tool.exception", str(problem)) from None


def _failed(path: str, execution_id: str, status: str, error: Any) -> ToolError:
    why = f": {error.kind}: {error.message}" if error is not None else ""
    details = error.readable() if error is not None else None
    return ToolError(
        FAILED, f'"{path}" {status}{why}', execution_id=execution_id, child_status=status, child_error=details
    )


# `secrets`: looks up one secret by name, or has a keychain entry renewed (TOOL-09, KEY-04).
#
# The result has the fields that `keychain.name` would have: `value` where the secret is one text. It is masked in
# everything that is recorded, and the tasks after it in the same pipeline read it as it is.

UNRESOLVED = "keychain.unresolved"


class SecretsTool:
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

    async def close(self) -> None:
        """Nothing is open."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


def _lookup(name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    lookup = {key: inputs[key] for key in ("version", "auth") if inputs.get(key) is not None}
    return {**lookup, "path": name} if inputs.get("provider") == "file" else lookup


# `log`: one line in the execution's log, where `noetl logs` and the UI show it. The result is what was written.


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


# `noop` for workers: `spec: {place: worker}`, or in a pipeline with other tools (TOOL-08).


class NoopTool:
    is_instant = True

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(result=noop_result(inputs))

    async def close(self) -> None:
        """Nothing is open."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}
