"""Running one http task in a test, without a worker around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from noetl.base.addresses.connections import GuardedBackend
from noetl.base.addresses.policy import OPEN, AddressPolicy
from noetl.base.errors import ToolError
from noetl.base.redaction import Redactor
from noetl.testing.tool_conformance import tool_context
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.http.tool import HttpTool

KEY = "exec-1/orders#1/post/1"


def context(
    spec: Mapping[str, Any] | None = None,
    *,
    resolve: Callable[[str], Mapping[str, Any]] | None = None,
    mask: Callable[[str], str] = str,
) -> ToolContext:
    return tool_context(spec, key=KEY, execution_id="exec-1", resolve=resolve, mask=mask)


@asynccontextmanager
async def http_tool(policy: AddressPolicy = OPEN, *, backend: GuardedBackend | None = None) -> AsyncIterator[HttpTool]:
    tool = HttpTool(policy, backend=backend)
    try:
        yield tool
    finally:
        await tool.close()


async def get(
    url: str, *, spec: Mapping[str, Any] | None = None, secrets: Sequence[str] = (), **inputs: Any
) -> ToolResult:
    """One task run with a tool of its own; `secrets` are those that its worker masks."""
    async with http_tool() as tool:
        return await tool.run({"url": url, **inputs}, context(spec, mask=Redactor(secrets).text))


async def failing(
    url: str, *, spec: Mapping[str, Any] | None = None, secrets: Sequence[str] = (), **inputs: Any
) -> ToolError:
    """The error of one task run."""
    with pytest.raises(ToolError) as caught:
        await get(url, spec=spec, secrets=secrets, **inputs)
    return caught.value
