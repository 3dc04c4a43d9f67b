"""`ducklake`: SQL on a lake of DuckLake, whose catalogue is a file of DuckDB or SQLite, or a PostgreSQL database.

It is the `duckdb` tool with the lake attached and in use: statements, parameters, tables and results are the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.auth_shapes import connection_fields
from noetl.tools.contract import ToolContext
from noetl.tools.duckdb.attachments import Attachment
from noetl.tools.duckdb.tool import DuckdbTool
from noetl.tools.files import allowed_path
from noetl.tools.interpreters import named_interpreter
from noetl.tools.postgres.targets import libpq_address, target_of
from noetl.tools.registry import is_installed
from noetl.tools.tables.files import DUCKDB

_SQLITE = (".sqlite", ".sqlite3", ".db")
_NO_CATALOGUE = (
    'a ducklake task needs "catalog", a file in a data folder such as lake.ducklake, or "auth", a credential of the '
    "PostgreSQL database that has the catalogue"
)


class DucklakeTool(DuckdbTool):
    """Its extensions fit one version of DuckDB: another interpreter may have them, with a DuckDB of its own."""

    store = "ducklake.table"

    def __init__(self) -> None:
        if not is_installed("ducklake"):  # the child loads it; say so before there is one
            raise ImportError("duckdb-extension-ducklake is not installed")
        python = named_interpreter("ducklake")
        super().__init__(msgspec.structs.replace(DUCKDB, python=python) if python else DUCKDB)

    async def _attachment(self, inputs: Mapping[str, Any], context: ToolContext) -> Attachment:
        auth = inputs.get("auth")
        fields = connection_fields(auth, context, kind="ducklake", address="dsn") if auth is not None else {}
        catalog = inputs.get("catalog") or fields.get("catalog")
        options = _options(inputs, fields, context)
        if catalog is not None:
            path, store = _catalogue_file(str(catalog), context)
            if store and not os.path.exists(path):  # as DuckLake itself does for a catalogue of DuckDB
                options.setdefault("DATA_PATH", f"{path}.files/")
            return Attachment(kind="ducklake", address=path, store=store, options=options)
        if not fields:
            raise ToolError("sql.input", _NO_CATALOGUE)
        target = target_of(auth, context, kind="ducklake")
        if target.schema:
            options["METADATA_SCHEMA"] = target.schema
        address = await libpq_address(target, context)
        return Attachment(kind="ducklake", address=address, store="postgres", password=target.password, options=options)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the credential opens the catalogue of a lake. ToolError says why it does not."""
        count = "SELECT count(*) AS n FROM lake.snapshots()"
        found = await self.run({"query": count, "read_only": True, **inputs}, context)
        return f"opened the lake: {found.result['data'][0]['n']} snapshots"


def _catalogue_file(written: str, context: ToolContext) -> tuple[str, Literal["", "sqlite"]]:
    """The file of a catalogue, and whether it is one of SQLite, which its name or `sqlite:` before it says."""
    kind, colon, rest = written.partition(":")
    if colon and kind in ("postgres", "postgresql"):  # not shown: it may hold a password
        raise ToolError("sql.input", '"catalog" is a file: put the address of a PostgreSQL database into "auth"')
    path = rest if colon and kind in ("sqlite", "duckdb") else written
    is_sqlite = kind == "sqlite" if path is rest else PurePath(path).suffix in _SQLITE
    return _local_path(path, context), "sqlite" if is_sqlite else ""


def _local_path(written: str, context: ToolContext) -> str:
    """A path below a data folder. ToolError for a URL: it would be a folder called "s3:"."""
    scheme, mark, _ = written.partition("://")
    if mark:
        raise ToolError(
            "sql.input", f"a lake at {scheme}:// cannot be opened: catalogue and files are in a data folder"
        )
    return allowed_path(written, context.data_folders, kind="sql.input")


def _options(inputs: Mapping[str, Any], fields: Mapping[str, Any], context: ToolContext) -> dict[str, str | int | bool]:
    options: dict[str, str | int | bool] = {}
    if (data_path := inputs.get("data_path") or fields.get("data_path")) is not None:
        options["DATA_PATH"] = _local_path(str(data_path), context) + "/"
    version, moment = inputs.get("version"), inputs.get("as_of")
    if version is not None and moment is not None:
        raise ToolError("sql.input", '"version" and "as_of" both say which snapshot: keep one of them')
    if version is not None:
        if isinstance(version, bool) or not isinstance(version, int) or version < 0:
            raise ToolError("sql.input", f'version "{version}" is not the number of a snapshot')
        options["SNAPSHOT_VERSION"] = version
    if moment is not None:
        options["SNAPSHOT_TIME"] = str(moment)
    if inputs.get("read_only"):
        options |= {"READ_ONLY": True, "CREATE_IF_NOT_EXISTS": False}
    return options
