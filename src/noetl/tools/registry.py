"""The registry: which class runs a kind, imported when a task first needs it (TOOL-01).

Built-in kinds and those of plug-ins (entry points of the group `noetl.tools`) are found in the same way.
`Permissions` is what the operator of a worker allows tools to do on its machine (design.md §7): nothing by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import msgspec

from noetl.base.addresses.policy import OPEN, AddressGuard, AddressPolicy
from noetl.base.errors import RefusedError, ToolError
from noetl.net.kinds import NOTHING_BOUND, BoundInputs, ToolKind
from noetl.tools.contract import Tool

# Kinds that run programs of this machine: off until the operator turns them on.
OFF_BY_DEFAULT = frozenset({"shell", "script", "container"})
# The names that `--allow` accepts: those kinds, and the part of `mcp` that starts programs.
ALLOWABLE = ("shell", "script", "container", "mcp")


def allowed_kinds(names: Iterable[str]) -> frozenset[str]:
    """The kinds to turn on. Raises RefusedError for a name that turns on nothing."""
    allowed = frozenset(names)
    if unknown := sorted(allowed - {*ALLOWABLE}):
        raise RefusedError(f'allow: "{unknown[0]}" is not one of {", ".join(ALLOWABLE)}')
    return allowed


def denied_kinds(names: Iterable[str]) -> frozenset[str]:
    """The kinds to deny. Raises RefusedError for a name that no kind has: a mistyped name would deny nothing."""
    denied = frozenset(names)
    if not denied:
        return denied
    from noetl.tools.kinds import KINDS

    # `workbook` is in the table of kinds, and has no tool.
    known = {*KINDS, *BUILT_IN, *plugin_kinds()}
    if unknown := sorted(denied - known):
        raise RefusedError(f'deny: there is no tool kind "{unknown[0]}"; there are {", ".join(sorted(known))}')
    return denied


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """The kinds that the operator of a worker allows and denies."""

    kinds: frozenset[str] = frozenset()  # turned on, of the kinds that are off by default
    denied: frozenset[str] = frozenset()  # turned off; this wins over `kinds`
    data_folders: tuple[str, ...] = ()  # folders of files that tools may open for a playbook
    provider_stand_ins: tuple[str, ...] = ()  # substitutes for providers of jobs: `ibm=simulator` (QNT-03)
    sandbox: bool = False  # code of playbooks runs in a sandbox only
    addresses: AddressPolicy = OPEN  # the addresses that tools may connect to: all but cloud metadata

    def refusal(self, kind: str) -> str | None:
        """Why a kind may not run here; None if it may."""
        if kind in self.denied:
            return f'tool kind "{kind}" is denied here by the operator (--deny {kind})'
        if kind not in OFF_BY_DEFAULT or kind in self.kinds:
            return None
        return f'tool kind "{kind}" runs programs of this machine and is off: turn it on with --allow {kind}'


BUILT_IN = {
    "amqp": "noetl.tools.amqp:AmqpTool",
    "archive": "noetl.tools.archive.tool:ArchiveTool",
    "artifact": "noetl.tools.internal:ArtifactTool",
    "container": "noetl.tools.container.tool:ContainerTool",
    "convert": "noetl.tools.convert.tool:ConvertTool",
    "dask": "noetl.tools.frameworks.clusters:DaskTool",
    "dbt": "noetl.tools.frameworks.dbt:DbtTool",
    "delta": "noetl.tools.lake:DeltaTool",
    "dlt": "noetl.tools.frameworks.dlt:DltTool",
    "duckdb": "noetl.tools.duckdb.tool:DuckdbTool",
    "ducklake": "noetl.tools.lake:DucklakeTool",
    "email": "noetl.tools.email:EmailTool",
    "gcs": "noetl.tools.storage.tool:GcsTool",
    "http": "noetl.tools.http.tool:HttpTool",
    "iceberg": "noetl.tools.lake:IcebergTool",
    "kafka": "noetl.tools.messaging.tool:KafkaTool",
    "llm": "noetl.tools.llm:LlmTool",
    "mcp": "noetl.tools.mcp:McpTool",
    "mqtt": "noetl.tools.messaging.tool:MqttTool",
    "nats": "noetl.tools.nats:NatsTool",
    "noop": "noetl.tools.internal:NoopTool",
    "log": "noetl.tools.internal:LogTool",
    "pgp": "noetl.tools.pgp:PgpTool",
    "playbook": "noetl.tools.internal:PlaybookTool",
    "postgres": "noetl.tools.postgres.tool:PostgresTool",
    "python": "noetl.tools.python.tool:PythonTool",
    "quantum": "noetl.tools.quantum.tool:QuantumTool",
    "ray": "noetl.tools.frameworks.clusters:RayTool",
    "redis": "noetl.tools.messaging.tool:RedisTool",
    "secrets": "noetl.tools.internal:SecretsTool",
    "script": "noetl.tools.shell.tool:ScriptTool",
    "sftp": "noetl.tools.sftp:SftpTool",
    "shell": "noetl.tools.shell.tool:ShellTool",
    "slack": "noetl.tools.chat:SlackTool",
    "snowflake": "noetl.tools.sql.tool:SnowflakeTool",
    "sql": "noetl.tools.sql.tool:SqlTool",
    "ssh": "noetl.tools.ssh:SshTool",
    "storage": "noetl.tools.storage.tool:StorageTool",
    "teams": "noetl.tools.chat:TeamsTool",
    "transfer": "noetl.tools.transfer.tool:TransferTool",
}
CALL_NOTHING = frozenset(BUILT_IN) - {"playbook"}  # kinds that never start a child
# Kinds whose extra has the name of the kind.
_EXTRA_OF_SAME_NAME = (
    *("amqp", "convert", "dask", "dbt", "delta", "dlt", "duckdb", "ducklake", "email", "iceberg", "kafka", "mcp"),
    *("mqtt", "nats", "pgp", "postgres", "ray", "redis", "snowflake", "sql", "ssh", "storage"),
)
# The extra whose packages a kind needs.
EXTRAS = {**{name: name for name in _EXTRA_OF_SAME_NAME}, "gcs": "storage", "sftp": "ssh"}
# Extras that may be installed in another interpreter (`tools.interpreters`).
OF_INTERPRETERS = frozenset({"dask", "dbt", "delta", "dlt", "ducklake", "iceberg", "ray"})
GROUP = "noetl.tools"
# Implementations that need no extra, so they are always installed.
_ALWAYS = frozenset(path for kind, path in BUILT_IN.items() if kind not in EXTRAS)
# The module by which an extra is recognised, where it has another name than the extra.
_DRIVERS = {
    "amqp": "aiormq",
    "convert": "openpyxl",
    "dask": "distributed",
    # Not "dbt": any folder of that name on the path is a namespace package to Python.
    "dbt": "dbt.cli",
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

# Drivers that are installed. A search through all package folders takes a millisecond, and a server asks for all
# kinds. A missing driver is searched again each time, so that an extra can be installed while a server runs.
_INSTALLED_DRIVERS: set[str] = set()


class Registry:
    """Tools by kind, one instance each.

    `more` adds kinds: an import path, a tool, or a function that makes one. `extras` names the extra whose packages a
    kind needs. `permissions` turns on kinds that are off by default.
    """

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
        """Whether this registry knows the kind; imports nothing."""
        return kind in self._paths or kind in plugin_kinds()

    def kinds(self) -> tuple[str, ...]:
        """The kinds that can run here: allowed, with their extra installed and their plug-in importable."""
        known = sorted({*self._paths, *plugin_kinds()})
        return tuple(kind for kind in known if self.refusal(kind) is None and self._is_installed(kind))

    def _is_installed(self, kind: str) -> bool:
        path = self._paths.get(kind)
        if path == BUILT_IN.get(kind) and kind in self._extras:
            # A search for the module, no import: drivers are slow to import, and most are never used.
            return is_installed(self._extras[kind])
        path = path or plugin_kinds().get(kind)
        return not isinstance(path, str) or path in _ALWAYS or _loads(path)

    def tool(self, kind: str) -> Tool:
        """The tool of a kind. Raises ToolError `tool.unknown_kind`, which names what is missing."""
        tool = self._tools.get(kind)
        if tool is None:
            # One instance for the life of the worker: it holds connections and child processes.
            tool = self._tools[kind] = self._make(kind)
        return tool

    def bound_inputs(self, kind: str) -> BoundInputs:
        """The inputs of a kind that are bound instead of rendered. A plug-in declares them in its `kind`, a built-in
        kind in the table. Raises ToolError as `tool` does."""
        bound = self._bound.get(kind)
        if bound is None:
            from noetl.tools.kinds import KINDS  # a worker that only runs http needs no other table

            own = None if kind in BUILT_IN else getattr(self.tool(kind), "kind", None)
            declared = own if isinstance(own, ToolKind) else KINDS.get(kind)
            bound = self._bound[kind] = declared.bound_inputs if declared else NOTHING_BOUND
        return bound

    def refusal(self, kind: str) -> str | None:
        """The reason why a known kind cannot run here, with a fix; None if it can, or if the kind is unknown."""
        return self.permissions.refusal(kind) or self._missing_extra(kind) if self.runs(kind) else None

    def helpers(self, kind: str) -> dict[str, dict[str, Any]]:
        """The kind's names on an outcome that no tool made; empty if the kind cannot run here."""
        try:
            return self.tool(kind).helpers()
        except ToolError:
            return {}

    def _make(self, kind: str) -> Tool:
        path = self._paths.get(kind) or plugin_kinds().get(kind)
        if refusal := self.refusal(kind):
            # Turned off by the operator and not installed are two error kinds: each has another fix.
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
            raise ToolError("tool.unknown_kind", self._import_failure(kind, problem)) from problem
        return made

    def _missing_extra(self, kind: str) -> str | None:
        """The extra to install for a built-in kind, known before a run begins; None if it is installed."""
        extra = self._extras.get(kind)
        if extra is None or self._paths.get(kind) != BUILT_IN.get(kind) or is_installed(extra):
            return None
        return _install_text(kind, extra)

    def _import_failure(self, kind: str, problem: ImportError) -> str:
        if extra := self._extras.get(kind):
            return _install_text(kind, extra)
        return f'tool kind "{kind}" could not be imported: {problem}'

    def release(self, execution_id: str) -> None:
        """Free what tools keep for an execution that is over."""
        for tool in self._tools.values():
            # Optional in the contract: only tools with child processes keep something for an execution.
            if (release := getattr(tool, "release", None)) is not None:
                release(execution_id)

    async def close(self) -> None:
        for tool in self._tools.values():
            await tool.close()


def guarded_registry(permissions: Permissions) -> Registry:
    """The tools of a server or a worker. HTTP requests reach only addresses that `permissions` allow."""

    def make_http() -> Tool:
        from noetl.tools.http.tool import HttpTool  # a sixth of the start time, and most servers run no task

        return HttpTool(permissions.addresses)

    return Registry({"http": make_http}, permissions=permissions)


def _install_text(kind: str, extra: str) -> str:
    elsewhere = f", or name an interpreter that has it in the setting interpreters ({extra}=PATH)"
    text = f'tool kind "{kind}" needs an extra: pip install "noetl-engine[{extra}]"'
    return text + elsewhere if extra in OF_INTERPRETERS else text


def driver_of(extra: str) -> str:
    """The module that an extra installs."""
    return _DRIVERS.get(extra, extra)


def is_installed(extra: str) -> bool:
    """Whether the packages of an extra are installed, here or in an interpreter of the settings. Imports none."""
    driver = driver_of(extra)
    if driver in _INSTALLED_DRIVERS or _is_findable(driver):
        _INSTALLED_DRIVERS.add(driver)
        return True
    if extra not in OF_INTERPRETERS:
        return False
    from noetl.tools.interpreters import named_interpreter  # few workers run such a kind

    return named_interpreter(extra) is not None


def _is_findable(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # raised for the parent package of a dotted name
        return False


def _loads(path: str) -> bool:
    """Whether the class of a plug-in can be imported."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name, None) is not None
    except Exception:  # the module is not ours: importing it may raise anything
        return False


def plugin_kinds() -> dict[str, str]:
    """The import path of each kind that an installed plug-in provides."""
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    return {entry.name: entry.value for entry in entry_points(group=GROUP)}


def credential_inputs(kind: str) -> tuple[str, ...] | None:
    """The inputs of a plug-in's kind that name credentials, as the kind declares them (reliability.md §2.2). None for a
    built-in kind, whose inputs `noetl.net.secret_reads` knows; empty if a plug-in declares none."""
    if kind in BUILT_IN:
        return None
    from noetl.tools.kinds import load_kinds  # looks for installed packages, and most playbooks need none

    declared = load_kinds().get(kind)
    return tuple(entry.name for entry in declared.inputs if entry.credential) if declared is not None else ()
