"""Kinds that run SQL: postgres, duckdb and similar ones, with the same inputs."""

from __future__ import annotations

import msgspec

from noetl.net.kinds import (
    AUTH,
    COUNT,
    FLAG,
    INTEGER,
    NUMBER,
    OBJECT,
    TEXT,
    TEXT_OR_TEXTS,
    TEXTS,
    Input,
    NeededInput,
    ToolKind,
    TriggerKind,
    one_of,
    script_source,
)

COMMAND = Input(
    name="command",
    schema=TEXT_OR_TEXTS,
    doc="SQL to run; several statements are separated by semicolons. Templates in value positions are bound.",
    aliases=("commands", "statement", "statements", "sql", "queries"),
    sql=True,
)
QUERY = Input(name="query", schema=TEXT, doc="The same as command.", sql=True)
PARAMS = Input(
    name="params",
    schema={"anyOf": [OBJECT, {"type": "array"}]},
    doc="Values bound to the placeholders of the SQL, by name or by position.",
    aliases=("parameters",),
)
SCRIPT = Input(name="script", schema=script_source("file"), doc="SQL kept in a file.", read_strictly=True)
TABLE = Input(name="table", schema=TEXT, doc="Table to insert into; the row is args.")
ROW = Input(
    name="args",
    schema={"anyOf": [OBJECT, {"type": "array", "items": OBJECT}]},
    doc="With table: the row to insert, or a list of rows. Otherwise values readable as args in the SQL.",
    aliases=("row", "rows", "values", "data"),
)
DATABASE = Input(
    name="database",
    schema=TEXT,
    doc="Database file; in memory when left out.",
    aliases=("db", "db_path", "database_path", "db_file", "file"),
)

_ROWS_TRIGGER = TriggerKind(
    doc="A new row that a query finds.",
    item="The row, by column.",
    inputs=(
        Input(
            name="query",
            schema=TEXT,
            doc="Finds the rows after `:cursor`, in its order, at most `:limit` of them.",
            required=True,
        ),
        Input(name="cursor", schema=TEXT, doc="A column that is unique and grows with every new row.", required=True),
        Input(
            name="start",
            schema={"anyOf": [NUMBER, TEXT]},
            doc="The cursor at the beginning: rows up to it start nothing.",
            required=True,
        ),
    ),
)


def _rows_trigger(*more: Input) -> TriggerKind:
    return msgspec.structs.replace(_ROWS_TRIGGER, inputs=(*_ROWS_TRIGGER.inputs, *more))


_TEXTS = (COMMAND, QUERY, PARAMS, SCRIPT, TABLE, ROW)
_MODE = Input(
    name="mode",
    schema=one_of("insert", "upsert", "merge", "append"),
    doc="With table: what happens to rows that are there already.",
    read_strictly=True,
    needs=NeededInput("key", ("upsert", "merge"), beside="table"),
)
_KEY = Input(
    name="key",
    schema={"anyOf": [TEXT, TEXTS]},
    doc="With table and upsert: the key columns.",
    aliases=("keys", "conflict_columns"),
)
_NEEDED = (("command", "query", "script", "table"),)
_MAX_ROWS = Input(
    name="max_rows", schema=COUNT, doc="Most rows a statement may return; more rows are the error result.too_large."
)
# `kinds.code` uses these two for python tasks, which read and write the same tables.
TABLES = Input(
    name="tables",
    schema=OBJECT,
    doc='Tables of earlier tasks, by the name they have here: {orders: "{{ load.ref }}"}. Such a task keeps its rows '
    "as a table: spec: {rows: parquet}.",
)
ROWS = Input(
    name="rows",
    schema=one_of("inline", "parquet"),
    doc="parquet keeps the rows as a table in the results store and returns its reference; inline when left out.",
)
_TRANSACTION = Input(name="transaction", schema=FLAG, doc="Run all statements in one transaction; true when left out.")

_THREADS = Input(name="threads", schema=COUNT, doc="Threads it may use.")

POSTGRES = ToolKind(
    name="postgres",
    trigger=_rows_trigger(AUTH),
    credential_types=("postgres",),
    error_kinds=("pg.error", "sql.fragment", "sql.input"),
    doc="Runs SQL on PostgreSQL. The payload is the rows of the last statement.",
    inputs=(
        *_TEXTS,
        _MODE,
        _KEY,
        AUTH,
    ),
    spec=(
        Input(name="isolation", schema=TEXT, doc="Transaction isolation level."),
        Input(name="pool_size", schema=COUNT, doc="Connections kept per credential."),
        Input(name="exactly_once", schema=FLAG, doc="Skip a repeated run whose effect is recorded."),
        _TRANSACTION,
        _MAX_ROWS,
        ROWS,
    ),
    one_of=_NEEDED,
    unwraps=True,
    defaults={"timeout": 300},
)

DUCKDB = ToolKind(
    name="duckdb",
    error_kinds=("duckdb.error", "sql.fragment", "sql.input"),
    doc="Runs SQL on DuckDB, in memory or on a database file.",
    inputs=(*_TEXTS, _MODE, _KEY, DATABASE, TABLES, AUTH),
    spec=(_THREADS, _TRANSACTION, _MAX_ROWS, ROWS),
    one_of=_NEEDED,
    unwraps=True,
    defaults={"timeout": 300},
)

_URL = Input(name="url", schema=TEXT, doc="With SQLite: the database file in a data folder, sqlite:///shop.db.")

SQL = ToolKind(
    name="sql",
    trigger=_rows_trigger(_URL, AUTH),
    credential_types=("mysql", "sqlserver", "oracle", "snowflake", "clickhouse", "trino", "redshift", "databricks"),
    error_kinds=("sql.error", "sql.fragment", "sql.input"),
    doc="Runs SQL on MySQL, MariaDB, SQL Server, Oracle, Snowflake, ClickHouse, Trino, Redshift, Databricks "
    "or SQLite. The payload is the rows of the last statement.",
    inputs=(
        *_TEXTS,
        _MODE,
        _KEY,
        _URL,
        Input(name="database", schema=TEXT, doc="Database, in place of that of the credential."),
        AUTH,
    ),
    spec=(Input(name="isolation", schema=TEXT, doc="Transaction isolation level."), _TRANSACTION, _MAX_ROWS, ROWS),
    one_of=_NEEDED,
    unwraps=True,
    defaults={"timeout": 300},
)

SNOWFLAKE = ToolKind(
    name="snowflake",
    error_kinds=("sql.error", "sql.fragment", "sql.input"),
    doc="Runs SQL on Snowflake. The payload is the rows of the last statement.",
    inputs=(
        *_TEXTS,
        _MODE,
        _KEY,
        Input(name="database", schema=TEXT, doc="Database of unqualified names."),
        Input(name="warehouse", schema=TEXT, doc="Warehouse that runs the SQL."),
        Input(name="schema", schema=TEXT, doc="Schema of unqualified names."),
        Input(name="role", schema=TEXT, doc="Role to take."),
        AUTH,
    ),
    spec=(_TRANSACTION, _MAX_ROWS, ROWS),
    one_of=_NEEDED,
    unwraps=True,
    open_inputs=True,
    defaults={"timeout": 300},
)

_STORE_ERRORS = ("storage.denied", "storage.error", "storage.input", "storage.missing")
_STORAGE_AUTH = msgspec.structs.replace(
    AUTH,
    name="storage_auth",
    doc="Credential of the object store that has the files, as storage takes it; requests are unsigned when left out.",
    aliases=(),
)

DUCKLAKE = ToolKind(
    name="ducklake",
    credential_types=("ducklake",),
    error_kinds=("duckdb.error", "sandbox.unavailable", "sql.fragment", "sql.input", *_STORE_ERRORS),
    doc="Runs SQL on a lake of DuckLake: tables as Parquet files, with transactions and snapshots.",
    inputs=(
        *_TEXTS,
        Input(
            name="catalog",
            schema=TEXT,
            doc="The catalogue: a file of DuckDB or SQLite (.sqlite, .db) in a data folder, made when it is not there. "
            "Left out where auth names a PostgreSQL database.",
            aliases=("database", "catalogue"),
        ),
        Input(
            name="data_path",
            schema=TEXT,
            doc="Folder of the Parquet files, in a data folder or an object store. Needed when a lake is made in "
            "PostgreSQL; beside the catalogue, or where the lake has them already, when left out.",
        ),
        Input(name="version", schema=INTEGER, doc="Read the lake as it was in this snapshot."),
        Input(name="as_of", schema=TEXT, doc="Read the lake as it was at this time."),
        Input(name="read_only", schema=FLAG, doc="Change nothing, and create no lake if there is none."),
        TABLES,
        AUTH,
        _STORAGE_AUTH,
    ),
    spec=(_THREADS, _TRANSACTION, _MAX_ROWS, ROWS),
    one_of=_NEEDED,
    unwraps=True,
    defaults={"timeout": 300},
)

_COLUMNS = Input(name="columns", schema=TEXT_OR_TEXTS, doc="The columns to read; all when left out.")
_READ = Input(
    name="query",
    schema=TEXT,
    doc="A query of the table, which is called source. Templates in value positions are bound. All rows when left out.",
    aliases=("command", "sql"),
    sql=True,
)
_READ_ERRORS = ("duckdb.error", "lake.input", "sandbox.unavailable", "sql.fragment", "sql.input", *_STORE_ERRORS)

ICEBERG = ToolKind(
    name="iceberg",
    credential_types=("iceberg", "iceberg_rest"),
    error_kinds=("lake.denied", "lake.error", *_READ_ERRORS),
    doc="Reads an Apache Iceberg table, in its current or an earlier snapshot.",
    inputs=(
        Input(
            name="path",
            schema=TEXT,
            doc="The table in a data folder or an object store: its metadata file, or its folder.",
        ),
        Input(name="table", schema=TEXT, doc="The table in a catalogue: namespace.name."),
        Input(
            name="catalog",
            schema=TEXT,
            doc="With table: the catalogue, a file of SQLite in a data folder. Left out where auth names a REST "
            "catalogue or a PostgreSQL database.",
            aliases=("catalogue",),
        ),
        _COLUMNS,
        _READ,
        PARAMS,
        TABLES,
        Input(name="version", schema=INTEGER, doc="Read the snapshot with this id."),
        Input(name="as_of", schema=TEXT, doc="Read the table as it was at this time."),
        AUTH,
        _STORAGE_AUTH,
    ),
    spec=(_THREADS, _MAX_ROWS, ROWS),
    one_of=(("path", "table"),),
    unwraps=True,
    defaults={"timeout": 300},
)

DELTA = ToolKind(
    name="delta",
    error_kinds=_READ_ERRORS,
    doc="Reads a Delta Lake table, in its current or an earlier version.",
    inputs=(
        Input(
            name="path", schema=TEXT, doc="The folder of the table, in a data folder or an object store.", required=True
        ),
        _COLUMNS,
        _READ,
        PARAMS,
        TABLES,
        Input(name="version", schema=INTEGER, doc="Read this version of the table."),
        Input(name="as_of", schema=TEXT, doc="Read the table as it was at this time."),
        _STORAGE_AUTH,
    ),
    spec=(_THREADS, _MAX_ROWS, ROWS),
    unwraps=True,
    defaults={"timeout": 300},
)

KINDS = (POSTGRES, DUCKDB, SQL, SNOWFLAKE, DUCKLAKE, ICEBERG, DELTA)
