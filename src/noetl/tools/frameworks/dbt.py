"""`dbt`: runs, builds or tests a dbt project of a data folder. The result lists each node with its lineage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from os.path import isabs
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.files import allowed_path
from noetl.tools.input_shapes import connection_fields
from noetl.tools.interpreters import run_in_interpreter
from noetl.tools.kinds.data_frameworks import DBT_OPERATIONS
from noetl.tools.sandbox import UNAVAILABLE

INPUT = "dbt.input"
RUNNER = Path(__file__).with_name("dbt_runner.py")
# No colours in the output, no telemetry, and no question to the network whether dbt is up to date.
_QUIET = ("--no-use-colors", "--no-send-anonymous-usage-stats", "--no-version-check")


class DbtTool(Tool):
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.permissions.sandbox:
            raise ToolError(UNAVAILABLE, "a dbt project needs its database, and this worker allows sandboxes only")
        request = {"arguments": _arguments(inputs, context), "profile": _profile(inputs, context)}
        answer = await run_in_interpreter("dbt", RUNNER, request, context, _environment(inputs.get("env")))
        nodes = answer.fields.get("nodes")
        if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
            raise ToolError("dbt.error", "dbt did not report what it ran")
        counts = Counter(str(node.get("status")) for node in nodes)
        return ToolResult(result={"nodes": nodes, "counts": dict(counts)}, stdout=answer.ended.stdout)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the database takes the credential. No project is needed, and nothing is built."""
        if inputs.get("auth") is None:
            raise ToolError(INPUT, 'a connection is tried by its credential: "auth" is missing')
        profile = _profile(inputs, context)
        request = {"arguments": [*_QUIET, "debug", "--connection"], "profile": profile, "checks": True}
        await run_in_interpreter("dbt", RUNNER, request, context, _environment(None))
        return f"connected to {profile['outputs'][profile['target']]['type']}" if profile else ""


def _arguments(inputs: Mapping[str, Any], context: ToolContext) -> list[str]:
    """The invocation. Values follow a name with `=`, so that none is taken for an option."""
    operation = inputs.get("op") or "build"
    if operation not in DBT_OPERATIONS:
        raise ToolError(INPUT, f'op "{str(operation)[:50]}" is not one of {", ".join(DBT_OPERATIONS)}')
    project = allowed_path(str(inputs.get("project") or ""), context.permissions.data_folders, kind=INPUT)
    if not Path(project, "dbt_project.yml").is_file():
        raise ToolError(INPUT, f'project "{inputs.get("project")}" has no dbt_project.yml')
    arguments = [*_QUIET, operation, f"--project-dir={project}"]
    if inputs.get("auth") is None:
        arguments.append(f"--profiles-dir={project}")
    for name in ("select", "exclude"):
        arguments += [f"--{name}={word}" for word in _selectors(inputs.get(name), name)]
    if inputs.get("vars") is not None:
        arguments.append(f"--vars={msgspec.json.encode(_mapping(inputs['vars'], 'vars')).decode()}")
    # With `auth` we write the profile, and the target is the only one in it.
    if inputs.get("target") is not None and inputs.get("auth") is None:
        arguments.append(f"--target={inputs['target']}")
    if inputs.get("full_refresh") is True and operation in ("run", "build", "seed"):
        arguments.append("--full-refresh")
    return arguments


def _profile(inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any] | None:
    """A profile with one target from the fields of the credential; without a credential, the profile of the project."""
    if inputs.get("auth") is None:
        return None
    fields = connection_fields(inputs["auth"], context, kind="dbt", address="path")
    adapter = fields.get("adapter") or fields.get("type")
    if not isinstance(adapter, str) or adapter == "dbt":
        raise ToolError(INPUT, 'the credential needs "adapter", such as duckdb, postgres or snowflake')
    target = str(inputs.get("target") or "noetl")
    output = {name: value for name, value in fields.items() if name not in ("adapter", "data", "name")}
    path = output.get("path")
    if adapter == "duckdb" and isinstance(path, str) and ":" not in path and not isabs(path):
        # dbt would look for it in the folder that the worker was started in; no other kind does that.
        output["path"] = allowed_path(path, context.permissions.data_folders, kind=INPUT)
    return {"target": target, "outputs": {target: {"threads": 1, **output, "type": adapter}}}


def _selectors(written: Any, name: str) -> list[str]:
    words = [written] if isinstance(written, str) else written or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ToolError(INPUT, f"{name} is a text, or a list of texts")
    return words


def _mapping(written: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(written, Mapping):
        raise ToolError(INPUT, f"{name} must be a mapping, not {type(written).__name__}")
    return written


def _environment(written: Any) -> dict[str, str]:
    from noetl.tools.shell.inputs import environment_of

    return {"DO_NOT_TRACK": "1", **environment_of(written, kind=INPUT)}
