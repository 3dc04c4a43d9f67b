"""Tool: what runs one task, and nothing else. It sees rendered inputs, never a template, a store or a net.

A tool returns a `ToolResult` or raises `ToolError`; whatever else it raises becomes the error outcome
`tool.exception` (OUT-05). Timing, policy and recording are the worker's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

UNKNOWN: Any = object()  # what `ToolContext.name` gives for a name that is nowhere


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """A success. `helpers` are the kind's own words beside the outcome (OUT-02); `stdout` goes to `meta`.
    `wrapped`: the payload is the `data` member of the result (O-22)."""

    result: Any = None
    wrapped: bool = False
    helpers: dict[str, dict[str, Any]] = {}
    stdout: str | None = None


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a task run may know of its surroundings.

    `spec` is the effective spec, rendered. `idempotency_key` is the same for every attempt of one visit of a task
    (RELIABILITY 3.4). `name` resolves a bare name as a template would (TPL-06), to plain data. `resolve` gives the
    fields of a credential by its name, where there is a keychain; `data_folders` are the folders of files that a tool
    may open for a playbook (DESIGN §7).
    """

    execution_id: str
    step: str
    task: str
    attempt: int
    task_run_id: str
    idempotency_key: str
    spec: Mapping[str, Any]
    name: Callable[[str], Any]
    resolve: Callable[[str], Mapping[str, Any]] | None = None
    data_folders: tuple[str, ...] = ()


class Tool(Protocol):
    """One kind. One instance serves a worker for its whole life."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Do it once. Cancelled when its time is over: leave nothing running then."""

    async def close(self) -> None:
        """The worker ends: leave nothing behind."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        """The kind's words on an outcome it had no hand in (a timeout, a template error): present, and null."""
