"""`secrets`: looks up one secret by name, or has a keychain entry renewed (TOOL-09, KEY-04).

The result has the fields that `keychain.name` would have: `value` where the secret is one text. It is masked in
everything that is recorded, and the tasks after it in the same pipeline read it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext, ToolResult

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
