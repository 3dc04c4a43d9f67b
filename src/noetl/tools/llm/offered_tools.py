"""Tools that a model may call: tasks of other kinds, with inputs that the author has fixed.

A model chooses arguments and nothing else: they are checked against the declared parameters, and become one input of
the task (`args` when left out). Code, commands, addresses and credentials are never the model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.engine.pipeline.result_schemas import misfit
from noetl.tools.contract import ToolContext

_LONGEST = 64 << 10  # characters of a result that a model is shown


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`inputs` are the task's, beside `kind`; the model's arguments are its input `arguments`."""

    name: str
    kind: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    inputs: dict[str, Any] = {}
    arguments: str = "args"

    def declaration(self) -> dict[str, Any]:
        """As the endpoint is told of it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    async def answer(self, written: str, context: ToolContext) -> str:
        """What the tool gives for the model's arguments, as text for the model; also what went wrong, which it may
        make better."""
        try:
            arguments = msgspec.json.decode(written)
        except (msgspec.DecodeError, RecursionError):
            return "error: the arguments are not JSON"
        if not isinstance(arguments, dict):
            return "error: the arguments are not an object"
        if problem := misfit(self.parameters, arguments):
            return f"error: {problem}"
        assert context.tool is not None
        try:
            ran = await context.tool(self.kind).run({**self.inputs, self.arguments: arguments}, context)
        except ToolError as failed:
            return context.masked(f"error: {failed.kind}: {failed.message}")[:_LONGEST]
        found = ran.result["data"] if ran.wrapped and isinstance(ran.result, Mapping) else ran.result
        return context.masked(found if isinstance(found, str) else msgspec.json.encode(found).decode())[:_LONGEST]


def offered_tools(written: Any) -> dict[str, OfferedTool]:
    """By name. ToolError `llm.input` says what is wrong with one."""
    if not written:
        return {}
    try:
        found = msgspec.convert(written, list[OfferedTool])
    except msgspec.ValidationError as problem:
        raise ToolError("llm.input", f"tools: {problem}") from None
    by_name = {one.name: one for one in found}
    if len(by_name) < len(found):
        raise ToolError("llm.input", "tools: two have the same name")
    if nested := next((one.name for one in found if one.kind in ("llm", "playbook")), None):
        raise ToolError("llm.input", f'tools: "{nested}" is of a kind that a model may not call')
    return by_name
