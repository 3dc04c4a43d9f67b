"""Extensions of DuckDB, in the child: loaded from the wheels that extras install, and what they attach.

DuckDB downloads none. Some extensions open files and connections without asking DuckDB, so a process that has loaded
one is confined by the kernel (`tools.confinement`) before it sees the SQL of a playbook.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import quoted
from noetl.tools.duckdb.attachments import Attachment

POSTGRES, LAKE, CATALOGUE = "pg", "lake", "catalogue"  # what attached databases are called in SQL
_METADATA = f"__ducklake_metadata_{LAKE}"  # the name that DuckLake gives the database of its catalogue
_EXTRAS = {"postgres_scanner": "duckdb-extensions", "iceberg": "iceberg", "avro": "iceberg", "delta": "delta"}
_SPARE = 2  # connections beside one for each thread: of the transaction, and of what looks things up beside it


def load(connection: Any, name: str) -> None:
    """Load an extension from its wheel, where it lies: this process has no home to install it into. Without the wheel,
    one of that name that somebody installed otherwise."""
    spec = find_spec(f"duckdb_extension_{name}")
    folders = spec.submodule_search_locations or () if spec is not None else ()
    files = [Path(folder) / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension" for folder in folders]
    try:
        connection.execute(f"LOAD {quoted(str(next((file for file in files if file.is_file()), name)))}")
    except Exception:  # whatever is missing, this is the way out
        extra, known = _EXTRAS.get(name, "ducklake"), name.removesuffix("_scanner")
        message = f"this DuckDB cannot load the {known} extension here: install noetl-engine[{extra}]"
        raise ToolError("duckdb.error", message) from None


def attach(connection: Any, wanted: Attachment, threads: int) -> None:
    """Attach a database as `pg`, or a lake as `lake`."""
    for name in _needed(wanted):
        load(connection, name)
    if wanted.kind in ("iceberg", "delta"):
        return
    if wanted.connects:
        _keep_connections(connection, threads + _SPARE)
    with _password(wanted.password):
        try:
            connection.execute(_attach_statement(wanted))
            if wanted.connects:
                _open_connections(connection, _METADATA if wanted.kind == "ducklake" else POSTGRES, threads + _SPARE)
        except duckdb.Error as problem:
            if not wanted.connects:
                raise
            raise _not_attached(wanted, problem) from None
    if wanted.kind == "ducklake":
        connection.execute(f"USE {LAKE}")


def _needed(wanted: Attachment) -> tuple[str, ...]:
    """The extensions of an attachment."""
    stores = {"": (), "sqlite": ("sqlite_scanner",), "postgres": ("postgres_scanner",)}
    match wanted.kind:
        case "iceberg":
            return ("avro", "iceberg")
        case "delta":
            return ("delta",)
        case "ducklake":
            return ("ducklake", *stores[wanted.store])
        case kind:
            return stores[kind]


def _attach_statement(wanted: Attachment) -> str:
    if wanted.kind == "sqlite":
        return f"ATTACH {quoted(wanted.address)} AS {CATALOGUE} (TYPE sqlite, READ_ONLY)"
    if wanted.kind == "postgres":
        return f"ATTACH {quoted(wanted.address)} AS {POSTGRES} (TYPE postgres)"
    address = quoted(f"ducklake:{wanted.store}{':' if wanted.store else ''}{wanted.address}")
    options = ", ".join(f"{name} {_option(value)}" for name, value in wanted.options.items())
    return f"ATTACH {address} AS {LAKE} ({options})" if options else f"ATTACH {address} AS {LAKE}"


def _option(value: str | int | bool) -> str:
    return quoted(value) if isinstance(value, str) else str(value).lower()


@contextmanager
def _password(password: str) -> Iterator[None]:
    """The password where libpq looks for it. In the address it would be shown by SQL that lists databases."""
    os.environ["PGPASSWORD"] = password
    try:
        yield
    finally:
        del os.environ["PGPASSWORD"]


def _keep_connections(connection: Any, count: int) -> None:
    """Connections are made now, and kept: once sockets are forbidden there are no others. A scan that finds none free
    waits for one."""
    for name, value in {
        "max_connections": str(count),
        "acquire_mode": "'wait'",
        "enable_reaper_thread": "false",
        "idle_timeout_millis": "0",
    }.items():
        connection.execute(f"SET pg_pool_{name} = {value}")


def _open_connections(connection: Any, database: str, count: int) -> None:
    """Fill the pool: each of these transactions needs a connection of its own at the same time."""
    cursors = [connection.cursor() for _ in range(count)]
    try:
        for cursor in cursors:
            cursor.execute("BEGIN TRANSACTION")
            cursor.execute(f"FROM postgres_query({quoted(database)}, 'SELECT 1')").fetchall()
    finally:
        for cursor in cursors:
            cursor.close()


def _not_attached(wanted: Attachment, problem: duckdb.Error) -> ToolError:
    """Why a server did not answer as it should, in the words of libpq, without the address they begin with."""
    said = str(problem).replace(wanted.address, "…").split("\n\n")[0].rpartition('": ')[2].strip()
    what = "the PostgreSQL database of auth" if wanted.kind == "postgres" else "the catalogue of the lake"
    why = f": {said}" if said else ""
    return ToolError("duckdb.error", f"{what} cannot be attached{why}", retryable=True, code=type(problem).__name__)
