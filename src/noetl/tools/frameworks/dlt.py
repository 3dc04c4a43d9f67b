"""`dlt`: loads a resource of a script, or rows of the playbook, into a destination. The result has the rows of each
table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os.path import isabs
from pathlib import Path
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.files import allowed_path
from noetl.tools.input_shapes import connection_fields
from noetl.tools.interpreters import run_in_interpreter
from noetl.tools.sandbox import UNAVAILABLE
from noetl.tools.shell.inputs import environment_of

INPUT = "dlt.input"
RUNNER = Path(__file__).with_name("dlt_runner.py")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_DISPOSITIONS = ("append", "replace", "merge")


class DltTool(Tool):
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.permissions.sandbox:
            raise ToolError(UNAVAILABLE, "a pipeline needs its destination, and this worker allows sandboxes only")
        request = _request(inputs, context)
        env = {"RUNTIME__DLTHUB_TELEMETRY": "false", **environment_of(inputs.get("env"), kind=INPUT)}
        answer = await run_in_interpreter("dlt", RUNNER, request, context, env)
        if not isinstance(answer.fields.get("tables"), dict):
            raise ToolError("dlt.error", "dlt did not report what it loaded")
        return ToolResult(result=answer.fields, stdout=answer.ended.stdout)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the destination takes the credential. Nothing is loaded."""
        fields = connection_fields(inputs.get("auth"), context, kind="dlt", address="url")
        destination = _name(fields.get("destination") or _destination_of(str(fields.get("url") or "")), "destination")
        request: dict[str, Any] = {"destination": destination, "pipeline": "noetl", "dataset": "noetl", "checks": True}
        request["credentials"] = _credentials({**inputs, "destination": destination}, context)
        await run_in_interpreter("dlt", RUNNER, request, context, {"RUNTIME__DLTHUB_TELEMETRY": "false"})
        return f"connected to {destination}"


def _request(inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    script, data = inputs.get("script"), inputs.get("data")
    if (script is None) == (data is None):
        raise ToolError(INPUT, 'write "script", or "data": one of them')
    if data is not None and not isinstance(data, list):
        raise ToolError(INPUT, f"data is a list of rows, not {type(data).__name__}")
    args, disposition = inputs.get("args") or {}, inputs.get("write_disposition")
    if not isinstance(args, Mapping):
        raise ToolError(INPUT, "args is a mapping of name to value")
    if disposition is not None and disposition not in _DISPOSITIONS:
        raise ToolError(INPUT, f'write_disposition "{disposition}" is not one of {", ".join(_DISPOSITIONS)}')
    if data is not None and not inputs.get("table"):
        raise ToolError(INPUT, 'data needs "table", the name of the table')
    place = None if script is None else allowed_path(str(script), context.permissions.data_folders, kind=INPUT)
    return {
        "pipeline": _name(inputs.get("pipeline") or "noetl", "pipeline"),
        "destination": _name(inputs.get("destination"), "destination"),
        "dataset": _name(inputs.get("dataset") or "noetl", "dataset"),
        "script": place,
        "resource": None if script is None else _name(inputs.get("resource"), "resource"),
        "args": dict(args),
        "data": data,
        "table_name": inputs.get("table"),
        "write_disposition": disposition,
        "primary_key": inputs.get("key"),
        "credentials": _credentials(inputs, context),
    }


def _name(written: Any, what: str) -> str:
    if not isinstance(written, str) or not _NAME.match(written):
        raise ToolError(INPUT, f'{what} "{str(written or "")[:50]}" is no name of letters, digits and underscores')
    return written


def _destination_of(url: str) -> str:
    """The destination whose addresses look like this. Raises ToolError if none does."""
    scheme = url.partition("://")[0] if "://" in url else "duckdb" if url.endswith((".duckdb", ".db")) else ""
    if not scheme:
        raise ToolError(INPUT, 'the credential does not say what it opens: add "destination", such as postgres')
    return {"postgresql": "postgres"}.get(scheme, scheme)


def _credentials(inputs: Mapping[str, Any], context: ToolContext) -> Any:
    """The connection data of the destination: a URL or a path, else fields by their names."""
    if inputs.get("auth") is None:
        return None
    fields = connection_fields(inputs["auth"], context, kind="dlt", address="url")
    if fields.get("url"):
        url = str(fields["url"])
        # dlt would look for it in the folder that the worker was started in; no other kind does that. A value with a
        # colon is an address, or DuckDB's :memory:.
        is_file = inputs.get("destination") == "duckdb" and ":" not in url
        return allowed_path(url, context.permissions.data_folders, kind=INPUT) if is_file and not isabs(url) else url
    return {name: value for name, value in fields.items() if name not in ("type", "name", "data", "destination")}
