"""`ducklake`, `iceberg` and `delta`: lakes whose tables are Parquet files. The catalogue of DuckLake is a DuckDB or
SQLite file, or a PostgreSQL database. Tables of Iceberg and Delta are only read here.

These are the `duckdb` tool with the lake attached: statements, parameters, tables and results are the same. The child
loads the extensions and is confined before it receives anything of the playbook. Files in an object store are read and
written for it by another process (`storage.served_bucket`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import Bound, Parameter, Part, Statement, quoted, quoted_name
from noetl.tools.child_process import Program
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.duckdb.attachments import Attachment
from noetl.tools.duckdb.tool import DuckdbTool
from noetl.tools.files import allowed_path
from noetl.tools.iceberg_rest import VENDED_SECRETS, RestCatalog, rest_catalog, without_secrets
from noetl.tools.input_shapes import connection_fields
from noetl.tools.interpreters import named_interpreter
from noetl.tools.postgres.targets import libpq_address, target_of
from noetl.tools.registry import is_installed
from noetl.tools.storage.served_bucket import ServedBucket, is_object_url, served_bucket
from noetl.tools.table_files import DUCKDB

_SQLITE = (".sqlite", ".sqlite3", ".db")
_NO_CATALOGUE = (
    'a ducklake task needs "catalog", a file in a data folder such as lake.ducklake, or "auth", a credential of the '
    "PostgreSQL database that has the catalogue"
)


def _program(kind: str) -> Program:
    """The program of the child, in the interpreter that has the extension of this kind."""
    if not is_installed(kind):  # the child loads it; fail here, before a child starts
        raise ImportError(f"duckdb-extension-{kind} is not installed")
    python = named_interpreter(kind)
    return msgspec.structs.replace(DUCKDB, python=python) if python else DUCKDB


def _snapshot(inputs: Mapping[str, Any], *, error: str) -> tuple[int | None, Any]:
    """The version or the time of the snapshot to read; at most one of them is set."""
    version, moment = inputs.get("version"), inputs.get("as_of")
    if version is not None and moment is not None:
        raise ToolError(error, '"version" and "as_of" both say which snapshot: keep one of them')
    if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 0):
        raise ToolError(error, f'version "{version}" is not the number of a snapshot')
    return version, moment


class DucklakeTool(DuckdbTool):
    """The tool of the kind `ducklake`. Its extensions need one exact version of DuckDB, so another interpreter may run
    it."""

    store = "ducklake.table"

    def __init__(self) -> None:
        super().__init__(_program("ducklake"))

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        auth = inputs.get("auth")
        fields = connection_fields(auth, context, kind="ducklake", address="dsn") if auth is not None else {}
        data_path = inputs.get("data_path") or fields.get("data_path")
        if data_path is None or not is_object_url(data_path):
            return await super().run({**inputs, "objects": None, "data_path": data_path}, context)
        async with served_bucket(data_path, inputs.get("storage_auth"), context, name="data_path") as bucket:
            return await super().run({**inputs, "objects": bucket.files, "data_path": data_path}, context)

    async def _attachment(self, inputs: Mapping[str, Any], context: ToolContext) -> Attachment:
        auth = inputs.get("auth")
        fields = connection_fields(auth, context, kind="ducklake", address="dsn") if auth is not None else {}
        catalog = inputs.get("catalog") or fields.get("catalog")
        options = _options(inputs, context)
        attachment = await self._catalogue(inputs, catalog, options, context)
        # Never from the playbook: `run` has set it.
        return msgspec.structs.replace(attachment, objects=inputs["objects"])

    async def _catalogue(
        self, inputs: Mapping[str, Any], catalog: Any, options: dict[str, str | int | bool], context: ToolContext
    ) -> Attachment:
        auth = inputs.get("auth")
        if catalog is not None:
            path, store = _catalogue_file(str(catalog), context)
            if store and not os.path.exists(path):  # the default of DuckLake for a DuckDB catalogue
                options.setdefault("DATA_PATH", f"{path}.files/")
            return Attachment(kind="ducklake", address=path, store=store, options=options)
        if auth is None:
            raise ToolError("sql.input", _NO_CATALOGUE)
        target = target_of(auth, context, kind="ducklake")
        if target.schema:
            options["METADATA_SCHEMA"] = target.schema
        address = await libpq_address(target, context)
        return Attachment(kind="ducklake", address=address, store="postgres", password=target.password, options=options)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by opening the catalogue. Raises ToolError with the reason if it is refused."""
        count = "SELECT count(*) AS n FROM lake.snapshots()"
        found = await self.run({"query": count, "read_only": True, **inputs}, context)
        return f"opened the lake: {found.result['data'][0]['n']} snapshots"


def _catalogue_file(written: str, context: ToolContext) -> tuple[str, Literal["", "sqlite"]]:
    """The file of a catalogue, and whether it is SQLite, by its suffix or the prefix `sqlite:`."""
    kind, colon, rest = written.partition(":")
    if colon and kind in ("postgres", "postgresql"):  # the message does not show it: it may hold a password
        raise ToolError("sql.input", '"catalog" is a file: put the address of a PostgreSQL database into "auth"')
    path = rest if colon and kind in ("sqlite", "duckdb") else written
    is_sqlite = kind == "sqlite" if path is rest else PurePath(path).suffix in _SQLITE
    return _local_path(path, context), "sqlite" if is_sqlite else ""


def _local_path(written: str, context: ToolContext) -> str:
    """A path below a data folder. Raises ToolError for a URL, which would be taken for a folder called "s3:"."""
    scheme, mark, _ = written.partition("://")
    if mark:
        raise ToolError(
            "sql.input",
            f"{scheme}:// cannot be opened: a catalogue is in a data folder, files there or in s3://, gs://, az://",
        )
    return allowed_path(written, context.permissions.data_folders, kind="sql.input")


def _options(inputs: Mapping[str, Any], context: ToolContext) -> dict[str, str | int | bool]:
    options: dict[str, str | int | bool] = {}
    if (data_path := inputs["data_path"]) is not None:
        is_local = inputs["objects"] is None
        options["DATA_PATH"] = (_local_path(str(data_path), context) if is_local else data_path.rstrip("/")) + "/"
    version, moment = _snapshot(inputs, error="sql.input")
    if version is not None:
        options["SNAPSHOT_VERSION"] = version
    if moment is not None:
        options["SNAPSHOT_TIME"] = str(moment)
    if inputs.get("read_only"):
        # A mistyped name must not make an empty lake that is then read.
        options |= {"READ_ONLY": True, "CREATE_IF_NOT_EXISTS": False}
    return options


# `iceberg` and `delta`: rows of a table, current or at an earlier version, by columns and SQL.
#
# The table is a folder below a data folder. The child reads all files that its metadata names (logs, manifests, data)
# under the same rule, so that a table cannot lead to a file outside.

INPUT = "lake.input"
SOURCE = "source"  # the name of the table in the SQL of a task
_ALL = f"SELECT * FROM {SOURCE}"  # noqa: S608
_MOMENT = "TIMESTAMPTZ {} AT TIME ZONE 'UTC'"


class TableReadTool(DuckdbTool):
    """The common part of `iceberg` and `delta`. `version` is the number of a snapshot."""

    format: Literal["iceberg", "delta"]

    def __init__(self) -> None:
        super().__init__(_program(self.format))

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        _snapshot(inputs, error=INPUT)
        place, vended = await self._place(inputs, context)
        if not is_object_url(place):
            return await self._rows(local_path(place, context), None, inputs, context)
        try:
            async with served_bucket(place, inputs.get("storage_auth"), context, vended) as bucket:
                return await self._rows(place, bucket, inputs, context)
        except ToolError as problem:
            # A vended secret is in no stored credential, so the worker does not know it.
            message = without_secrets([vended[name] for name in VENDED_SECRETS if name in vended], problem.message)
            raise ToolError(problem.kind, message, retryable=problem.retryable, **problem.details) from None

    async def _rows(
        self, place: str, bucket: ServedBucket | None, inputs: Mapping[str, Any], context: ToolContext
    ) -> ToolResult:
        columns = _columns(inputs.get("columns"))
        source = f"SELECT {columns} FROM {await self._scan(place, bucket, inputs, context)}"  # noqa: S608  names and paths are quoted
        asked = {name: inputs[name] for name in ("query", "params", "tables") if inputs.get(name) is not None}
        attachment = Attachment(kind=self.format, views={SOURCE: source}, objects=bucket.files if bucket else None)
        return await super().run({"query": _ALL, **asked, "attachment": attachment}, context)

    async def _place(self, inputs: Mapping[str, Any], context: ToolContext) -> tuple[str, Mapping[str, Any]]:
        """The folder or metadata file of the table, and the credential that its catalogue vends for its files."""
        raise NotImplementedError

    async def _scan(
        self, place: str, bucket: ServedBucket | None, inputs: Mapping[str, Any], context: ToolContext
    ) -> str:
        """The function of DuckDB that reads the table, in SQL."""
        raise NotImplementedError

    async def _attachment(self, inputs: Mapping[str, Any], context: ToolContext) -> Attachment | None:
        # Never from the playbook: `run` passes on only the inputs that it names.
        attachment: Attachment = inputs["attachment"]
        return attachment

    async def _lookup_rows(self, parts: tuple[Part, ...], attachment: Attachment, context: ToolContext) -> Any:
        """The rows of our own lookup, without the options of the task."""
        # With `spec.rows: parquet`, for example, these rows would become a table.
        plain = msgspec.structs.replace(context, spec={})
        command = Bound((Statement(parts, "SELECT"),))
        return (await super().run({"command": command, "attachment": attachment}, plain)).result["data"]


class DeltaTool(TableReadTool):
    format = "delta"

    async def _place(self, inputs: Mapping[str, Any], context: ToolContext) -> tuple[str, Mapping[str, Any]]:
        if not inputs.get("path"):
            raise ToolError(INPUT, 'a delta task needs "path", the folder of the table')
        return str(inputs["path"]), {}

    async def _scan(
        self, place: str, bucket: ServedBucket | None, inputs: Mapping[str, Any], context: ToolContext
    ) -> str:
        version, moment = inputs.get("version"), inputs.get("as_of")
        if bucket is not None:  # earlier versions are in the log before its last checkpoint
            place = await bucket.local_table(is_latest=version is None and moment is None)
        if moment is not None:
            version = await self._version_at(place, str(moment), bucket, context)
        return f"delta_scan({quoted(place)}{'' if version is None else f', version = {version}'})"

    async def _version_at(self, folder: str, moment: str, bucket: ServedBucket | None, context: ToolContext) -> int:
        """The last version at a time, by the timestamps in the commits."""
        log = quoted(f"{folder}/_delta_log/*.json")
        shape = "format = 'newline_delimited', columns = {commitInfo: 'STRUCT(\"timestamp\" BIGINT)'}, filename = true"
        # The name of a commit file is the number of its version.
        version = "max(CAST(parse_filename(filename, true) AS UBIGINT))"
        asked = f"SELECT {version} AS v FROM read_json({log}, {shape})"  # noqa: S608  a path of ours, quoted
        until = f" WHERE commitInfo.timestamp <= epoch_ms({_MOMENT.format(quoted(moment))})"
        attachment = Attachment(kind="delta", objects=bucket.files if bucket else None)
        (row,) = await self._lookup_rows((asked + until,), attachment, context)
        if row["v"] is None:
            raise ToolError(INPUT, f'the table has no version of "{moment}" or before')
        return int(row["v"])


class IcebergTool(TableReadTool):
    format = "iceberg"

    async def _scan(
        self, place: str, bucket: ServedBucket | None, inputs: Mapping[str, Any], context: ToolContext
    ) -> str:
        options = ""
        if inputs.get("version") is not None:
            options = f", snapshot_from_id = {inputs['version']}"
        elif inputs.get("as_of") is not None:
            options = f", snapshot_from_timestamp = {_MOMENT.format(quoted(str(inputs['as_of'])))}"
        return f"iceberg_scan({quoted(place)}{options})"

    async def _place(self, inputs: Mapping[str, Any], context: ToolContext) -> tuple[str, Mapping[str, Any]]:
        path, table = inputs.get("path"), inputs.get("table")
        if (path is None) == (table is None):
            raise ToolError(INPUT, 'write "path", a table\'s folder or metadata file, or "table" with its catalogue')
        if path is not None:
            return str(path), {}
        namespace, dot, name = str(table).rpartition(".")
        if not dot:
            raise ToolError(INPUT, f'table "{table}" is not namespace.name')
        if (catalog := self._rest_catalog(inputs, context)) is not None:
            found = await catalog.table(namespace, name)
            return found.metadata, found.vended
        database, attachment = await self._catalogue(inputs, context)
        asked = f"SELECT DISTINCT metadata_location AS place FROM {database}.iceberg_tables WHERE table_namespace = "  # noqa: S608
        parts: tuple[Part, ...] = (asked, Parameter(namespace), " AND table_name = ", Parameter(name))
        rows = await self._lookup_rows(parts, attachment, context)
        if len(rows) != 1:
            raise ToolError(INPUT, f'the catalogue has {len(rows) or "no"} tables "{table}"; one is needed')
        return str(rows[0]["place"]), {}

    def _rest_catalog(self, inputs: Mapping[str, Any], context: ToolContext) -> RestCatalog | None:
        """The REST catalogue that `auth` names, if it is one."""
        if inputs.get("catalog") is not None or inputs.get("auth") is None:
            return None
        return rest_catalog(connection_fields(inputs["auth"], context, kind="iceberg", address="url"), context)

    async def _catalogue(self, inputs: Mapping[str, Any], context: ToolContext) -> tuple[str, Attachment]:
        """The schema of the tables of an SQL catalogue, and the attachment of its database."""
        if (catalog := inputs.get("catalog")) is not None:
            file = allowed_path(str(catalog).removeprefix("sqlite:"), context.permissions.data_folders, kind=INPUT)
            return "catalogue", Attachment(kind="sqlite", address=file)
        if inputs.get("auth") is None:
            raise ToolError(
                INPUT,
                '"table" needs "catalog", a file of SQLite, or "auth", a credential of a REST catalogue or of a '
                "PostgreSQL database",
            )
        target = target_of(inputs["auth"], context, kind="iceberg")
        address = await libpq_address(target, context)
        schema = quoted_name(target.schema) if target.schema else "public"
        return f"pg.{schema}", Attachment(kind="postgres", address=address, password=target.password)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by opening the catalogue. Raises ToolError with the reason if it is refused."""
        if (catalog := self._rest_catalog(inputs, context)) is not None:
            return await catalog.check()
        database, attachment = await self._catalogue(inputs, context)
        asked = f"SELECT count(*) AS n FROM {database}.iceberg_tables"  # noqa: S608
        (row,) = await self._lookup_rows((asked,), attachment, context)
        return f"opened the catalogue: {row['n']} tables"


def local_path(written: str, context: ToolContext) -> str:
    """A path below a data folder, written as a path or as file://. Raises ToolError for any other URL."""
    parts = urlsplit(written)
    if parts.scheme not in ("", "file"):
        known = "a data folder, s3://, gs:// or az://"
        raise ToolError(INPUT, f"a table at {parts.scheme}:// cannot be read: tables are in {known}")
    return allowed_path(unquote(parts.path) if parts.scheme else written, context.permissions.data_folders, kind=INPUT)


def _columns(written: Any) -> str:
    if written is None:
        return "*"
    names = [written] if isinstance(written, str) else written
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise ToolError(INPUT, "columns is a list of names")
    return ", ".join(map(quoted_name, names))
