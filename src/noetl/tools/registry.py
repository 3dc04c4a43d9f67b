"""The registry: which class runs a kind, imported when a task first needs it (TOOL-01).

Built-in kinds and those of plug-ins (entry points of the group `noetl.tools`) come through the same door.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from noetl.base.addresses.guard import AddressGuard
from noetl.base.errors import ToolError
from noetl.net.kinds import NOTHING_BOUND, BoundInputs, ToolKind
from noetl.tools.contract import Tool
from noetl.tools.permissions import Permissions

BUILT_IN = {
    "amqp": "noetl.tools.amqp.tool:AmqpTool",
    "archive": "noetl.tools.archive.tool:ArchiveTool",
    "artifact": "noetl.tools.artifact:ArtifactTool",
    "container": "noetl.tools.container.tool:ContainerTool",
    "convert": "noetl.tools.convert.tool:ConvertTool",
    "dask": "noetl.tools.clusters.tool:DaskTool",
    "dbt": "noetl.tools.dbt.tool:DbtTool",
    "delta": "noetl.tools.lake.tool:DeltaTool",
    "dlt": "noetl.tools.dlt.tool:DltTool",
    "duckdb": "noetl.tools.duckdb.tool:DuckdbTool",
    "ducklake": "noetl.tools.lake.tool:DucklakeTool",
    "email": "noetl.tools.email:EmailTool",
    "gcs": "noetl.tools.storage.tool:GcsTool",
    "http": "noetl.tools.http.tool:HttpTool",
    "iceberg": "noetl.tools.lake.tool:IcebergTool",
    "kafka": "noetl.tools.messaging.tool:KafkaTool",
    "llm": "noetl.tools.llm:LlmTool",
    "mcp": "noetl.tools.mcp.tool:McpTool",
    "mqtt": "noetl.tools.messaging.tool:MqttTool",
    "nats": "noetl.tools.nats.tool:NatsTool",
    "noop": "noetl.tools.internal:NoopTool",
    "log": "noetl.tools.internal:LogTool",
    "pgp": "noetl.tools.pgp.tool:PgpTool",
    "playbook": "noetl.tools.internal:PlaybookTool",
    "postgres": "noetl.tools.postgres.tool:PostgresTool",
    "python": "noetl.tools.python.tool:PythonTool",
    "quantum": "noetl.tools.quantum.tool:QuantumTool",
    "ray": "noetl.tools.clusters.tool:RayTool",
    "redis": "noetl.tools.messaging.tool:RedisTool",
    "secrets": "noetl.tools.internal:SecretsTool",
    "script": "noetl.tools.script:ScriptTool",
    "sftp": "noetl.tools.ssh.sftp:SftpTool",
    "shell": "noetl.tools.shell.tool:ShellTool",
    "slack": "noetl.tools.chat:SlackTool",
    "snowflake": "noetl.tools.sql.snowflake:SnowflakeTool",
    "sql": "noetl.tools.sql.tool:SqlTool",
    "ssh": "noetl.tools.ssh.tool:SshTool",
    "storage": "noetl.tools.storage.tool:StorageTool",
    "teams": "noetl.tools.chat:TeamsTool",
    "transfer": "noetl.tools.transfer.tool:TransferTool",
}
CALL_NOTHING = frozenset(BUILT_IN) - {"playbook"}  # kinds that never start a child
# kind -> the extra whose packages it needs
_CALLED_ALIKE = (
    *(
        "amqp",
        "convert",
        "dask",
        "dbt",
        "delta",
        "dlt",
        "duckdb",
        "ducklake",
        "email",
        "iceberg",
        "kafka",
        "mcp",
        "mqtt",
        "nats",
        "pgp",
        "postgres",
        "ray",
        "redis",
        "snowflake",
        "sql",
        "ssh",
        "storage",
    ),
)
EXTRAS = {**{name: name for name in _CALLED_ALIKE}, "gcs": "storage", "sftp": "ssh"}
OF_INTERPRETERS = frozenset(
    {"dask", "dbt", "delta", "dlt", "ducklake", "iceberg", "ray"}
)  # extras that may be installed elsewhere (`tools.interpreters`)
GROUP = "noetl.tools"
_ALWAYS = frozenset(path for kind, path in BUILT_IN.items() if kind not in EXTRAS)
_DRIVERS = {  # the module of an extra that is not called as the extra
    "amqp": "aiormq",
    "convert": "openpyxl",
    "dask": "distributed",
    "dbt": "dbt.cli",  # a folder called dbt is a package too, to Python
    "delta": "duckdb_extension_delta",
    "ducklake": "duckdb_extension_ducklake",
    "email": "aiosmtplib",
    "iceberg": "duckdb_extension_iceberg",
    "kafka": "aiokafka",
    "mqtt": "aiomqtt",
    "pgp": "pysequoia",
    "postgres": "asyncpg",
    "snowflake": "snowflake.sqlalchemy",
    "sql": "sqlalchemy",
    "ssh": "asyncssh",
    "storage": "obstore",
}

# Modules that were found: to look through every folder of packages costs a millisecond, and a server asks for all
# kinds. What is missing is looked for again, so that an extra can be installed while a server runs.
_FOUND: set[str] = set()


class Registry:
    """Tools by kind, one instance each. `more` adds kinds: an import path, a tool, or a function that makes one;
    `extras` names the extra whose packages a kind needs; `permissions` turn on what is off by default."""

    def __init__(
        self,
        more: Mapping[str, str | Tool | Callable[[], Tool]] | None = None,
        *,
        extras: Mapping[str, str] | None = None,
        permissions: Permissions | None = None,
    ) -> None:
        self.permissions = permissions or Permissions()
        self.addresses = AddressGuard(self.permissions.addresses)
        self._paths: dict[str, str | Tool | Callable[[], Tool]] = {**BUILT_IN, **(more or {})}
        self._extras = {**EXTRAS, **(extras or {})}
        self._tools: dict[str, Tool] = {}
        self._bound: dict[str, BoundInputs] = {}

    def runs(self, kind: str) -> bool:
        """Whether somebody here would run this kind; imports nothing."""
        return kind in self._paths or kind in plugin_kinds()

    def kinds(self) -> tuple[str, ...]:
        """What can really be run here: it is allowed, its extra is installed, its plug-in can be imported."""
        known = sorted({*self._paths, *plugin_kinds()})
        return tuple(kind for kind in known if self.refusal(kind) is None and self._is_there(kind))

    def _is_there(self, kind: str) -> bool:
        path = self._paths.get(kind)
        if path == BUILT_IN.get(kind) and kind in self._extras:
            return is_installed(self._extras[kind])  # without its driver being imported for nothing
        path = path or plugin_kinds().get(kind)
        return not isinstance(path, str) or path in _ALWAYS or _loads(path)

    def tool(self, kind: str) -> Tool:
        """The tool of a kind. ToolError `tool.unknown_kind` says what is missing."""
        tool = self._tools.get(kind)
        if tool is None:
            tool = self._tools[kind] = self._make(kind)
        return tool

    def bound_inputs(self, kind: str) -> BoundInputs:
        """Which inputs of a kind are bound and not rendered: as the plug-in's own `kind` says, else the table.
        ToolError as from `tool`."""
        bound = self._bound.get(kind)
        if bound is None:
            from noetl.tools.kinds import KINDS  # a worker that only runs http needs no other table

            own = None if kind in BUILT_IN else getattr(self.tool(kind), "kind", None)
            declared = own if isinstance(own, ToolKind) else KINDS.get(kind)
            bound = self._bound[kind] = declared.bound_inputs if declared else NOTHING_BOUND
        return bound

    def refusal(self, kind: str) -> str | None:
        """Why a known kind cannot be run here, and the way out; nothing where it can, or where nobody knows it."""
        return self.permissions.refusal(kind) or self._missing_extra(kind) if self.runs(kind) else None

    def helpers(self, kind: str) -> dict[str, dict[str, Any]]:
        """The kind's words on an outcome that no tool had a hand in; none where nobody runs it."""
        try:
            return self.tool(kind).helpers()
        except ToolError:
            return {}

    def _make(self, kind: str) -> Tool:
        path = self._paths.get(kind) or plugin_kinds().get(kind)
        if refusal := self.refusal(kind):
            denied = self.permissions.refusal(kind) is not None and path is not None
            raise ToolError("tool.not_allowed" if denied else "tool.unknown_kind", refusal)
        if path is None:
            known = ", ".join(sorted(self._paths))
            raise ToolError("tool.unknown_kind", f'no worker here runs tool kind "{kind}"; this worker runs {known}')
        if not isinstance(path, str):
            return path() if callable(path) else path
        module, _, name = path.partition(":")
        try:
            made: Tool = getattr(import_module(module), name)()
        except ImportError as problem:
            raise ToolError("tool.unknown_kind", self._missing(kind, problem)) from problem
        return made

    def _missing_extra(self, kind: str) -> str | None:
        """What to install for a built-in kind, told before a run begins; nothing where it is there."""
        extra = self._extras.get(kind)
        if extra is None or self._paths.get(kind) != BUILT_IN.get(kind) or is_installed(extra):
            return None
        return _install_text(kind, extra)

    def _missing(self, kind: str, problem: ImportError) -> str:
        if extra := self._extras.get(kind):
            return _install_text(kind, extra)
        return f'tool kind "{kind}" could not be imported: {problem}'

    def release(self, execution_id: str) -> None:
        """An execution is over: a tool that keeps something for it lets it go."""
        for tool in self._tools.values():
            if (release := getattr(tool, "release", None)) is not None:
                release(execution_id)

    async def close(self) -> None:
        for tool in self._tools.values():
            await tool.close()


def guarded_registry(permissions: Permissions) -> Registry:
    """The tools of a server or a worker: HTTP requests go only where `permissions` allow."""

    def make_http() -> Tool:
        from noetl.tools.http.tool import HttpTool  # a sixth of a server's start, and most servers run no task

        return HttpTool(permissions.addresses)

    return Registry({"http": make_http}, permissions=permissions)


def _install_text(kind: str, extra: str) -> str:
    elsewhere = f", or name an interpreter that has it in the setting interpreters ({extra}=PATH)"
    return f'tool kind "{kind}" needs an extra: install noetl-engine[{extra}]{elsewhere * (extra in OF_INTERPRETERS)}'


def driver_of(extra: str) -> str:
    """The module that an extra installs."""
    return _DRIVERS.get(extra, extra)


def is_installed(extra: str) -> bool:
    """Whether the packages of an extra are there, or in an interpreter that the settings name; imports none."""
    driver = driver_of(extra)
    if driver in _FOUND or _is_findable(driver):
        _FOUND.add(driver)
        return True
    if extra not in OF_INTERPRETERS:
        return False
    from noetl.tools.interpreters import named_interpreter  # few workers run such a kind

    return named_interpreter(extra) is not None


def _is_findable(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False


def _loads(path: str) -> bool:
    """Whether the class of a plug-in can be had."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name, None) is not None
    except Exception:  # whatever a stranger's module raises on import
        return False


def plugin_kinds() -> dict[str, str]:
    """The kinds that installed plug-ins run, and where their classes are."""
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    return {entry.name: entry.value for entry in entry_points(group=GROUP)}


def credential_inputs(kind: str) -> tuple[str, ...] | None:
    """The inputs of a kind that name credentials, as the kind itself declares (reliability.md §2.2). None for a
    built-in kind, whose places are known; none of them where a plug-in's kind does not say."""
    if kind in BUILT_IN:
        return None
    from noetl.tools.kinds import load_kinds  # looks for installed packages, and most playbooks need none

    found = load_kinds().get(kind)
    return tuple(one.name for one in found.inputs if one.credential) if found is not None else ()
