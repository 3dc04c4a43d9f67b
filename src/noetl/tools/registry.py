"""The registry: which class runs a kind, imported when a task first needs it (TOOL-01).

Built-in kinds and those of plug-ins (entry points of the group `noetl.tools`) come through the same door.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from noetl.errors import ToolError
from noetl.tools.contract import Tool

BUILT_IN = {
    "duckdb": "noetl.tools.duckdb.tool:DuckdbTool",
    "http": "noetl.tools.http.tool:HttpTool",
    "noop": "noetl.tools.noop:NoopTool",
    "postgres": "noetl.tools.postgres.tool:PostgresTool",
    "python": "noetl.tools.python.tool:PythonTool",
}
EXTRAS = {"duckdb": "duckdb", "postgres": "postgres"}  # kind -> the extra whose packages it needs
GROUP = "noetl.tools"


class Registry:
    """Tools by kind, one instance each. `more` adds kinds, by import path or ready made, for tests and embedders;
    `extras` names the extra whose packages a kind needs."""

    def __init__(
        self, more: Mapping[str, str | Tool] | None = None, *, extras: Mapping[str, str] | None = None
    ) -> None:
        self._paths: dict[str, str | Tool] = {**BUILT_IN, **(more or {})}
        self._extras = {**EXTRAS, **(extras or {})}
        self._tools: dict[str, Tool] = {}

    def runs(self, kind: str) -> bool:
        """Whether somebody here would run this kind; imports nothing."""
        return kind in self._paths or kind in _plugins()

    def tool(self, kind: str) -> Tool:
        """The tool of a kind. ToolError `tool.unknown_kind` says what is missing."""
        tool = self._tools.get(kind)
        if tool is None:
            tool = self._tools[kind] = self._make(kind)
        return tool

    def _make(self, kind: str) -> Tool:
        path = self._paths.get(kind) or _plugins().get(kind)
        if path is None:
            known = ", ".join(sorted(self._paths))
            raise ToolError("tool.unknown_kind", f'nobody here runs tool kind "{kind}"; this worker runs {known}')
        if not isinstance(path, str):
            return path
        module, _, name = path.partition(":")
        try:
            made: Tool = getattr(import_module(module), name)()
        except ImportError as problem:
            raise ToolError("tool.unknown_kind", self._missing(kind, problem)) from problem
        return made

    def _missing(self, kind: str, problem: ImportError) -> str:
        if extra := self._extras.get(kind):
            return f'tool kind "{kind}" needs an extra: install noetl[{extra}]'
        return f'tool kind "{kind}" could not be imported: {problem}'

    async def close(self) -> None:
        for tool in self._tools.values():
            await tool.close()


def _plugins() -> dict[str, str]:
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    return {entry.name: entry.value for entry in entry_points(group=GROUP)}
