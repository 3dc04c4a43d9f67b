"""`sql`: runs SQL on MySQL, SQL Server, Oracle, Snowflake, ClickHouse, Trino, Redshift, Databricks, SQLite.

It runs in a child process: drivers are many and large, a cancelled task ends with its process, and the sockets of that
process are held to the address policy.

`auth` and `url` name the database, field by field. Nothing of the worker's environment is used, and
passwords stay out of URLs that are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.positions import ALL_OF, ANY_OF
from noetl.templates.sql.statements import Bound, Part, Statement
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import OwningTool, ToolContext, ToolResult, TriggerBatch, TriggerPoll
from noetl.tools.files import allowed_path
from noetl.tools.input_shapes import UNRESOLVED, connection_fields
from noetl.tools.registry import is_installed
from noetl.tools.sql.answers import SqlAnswer, result_of
from noetl.tools.sql.dialects import DIALECTS, Connection, SqlDialect, dialect_named
from noetl.tools.sql.requests import Insertion, keeps_transactions, new_rows, reference_to, request, with_script
from noetl.tools.table_files import RowLoad, TableFiles, store_table, table_folder, wants_table
from noetl.tools.table_sql import TypedColumn

_FIELDS = {
    "host": ("account", "host", "hostname", "server", "db_host", "server_hostname"),
    "port": ("port", "db_port"),
    "user": ("user", "username", "login", "db_user"),
    "password": ("password", "db_password", "access_token", "token"),
    "database": ("database", "dbname", "db", "db_name", "service_name", "project", "catalog"),
}
_URLS = ("url", "dsn", "uri", "connection_string")
# Further driver options that a task may set, by dialect. All others are refused: an option may name a file, a proxy or
# a host.
_OPTIONS = {
    "snowflake": ("warehouse", "schema", "role", "host", "port", "protocol", "private_key", "authenticator"),
    "databricks": ("http_path", "catalog", "schema"),
    "trino": ("schema", "http_scheme"),
    "clickhouse": ("secure",),
    "mysql": ("charset", "ssl_ca_pem", "ssl"),
    "sqlserver": ("encrypt",),
}
_PLACES = "mysql://user:password@host/database, sqlite:///file.db, snowflake://user:password@account/database, …"


def connection_of(inputs: Mapping[str, Any], context: ToolContext) -> Connection:
    """The database of a task. Raises ToolError `keychain.unresolved`, which says what is missing."""
    auth, url = inputs.get("auth"), inputs.get("url")
    given = dict(connection_fields(auth, context, kind="sql", address="url")) if auth is not None else {}
    address = url or next((given[name] for name in _URLS if given.get(name)), None)
    found = _of_url(str(address)) if address else {}
    for field, spellings in _FIELDS.items():
        value = next((given[name] for name in spellings if given.get(name) not in (None, "")), None)
        if value is not None:
            found[field] = value
    dialect = found.pop("dialect", None) or _named_dialect(inputs, given)
    if dialect is None:
        known = ", ".join(DIALECTS)
        raise ToolError(
            UNRESOLVED, f'"auth" does not say which database: it needs a url ({_PLACES}) or a dialect ({known})'
        )
    if inputs.get("database"):
        found["database"] = inputs["database"]
    return _complete(dialect, found, given, inputs, context.permissions.data_folders)


def _named_dialect(inputs: Mapping[str, Any], given: Mapping[str, Any]) -> SqlDialect | None:
    """The dialect, named by the kind, by a field of the credential or by its type."""
    names = (inputs.get("dialect"), given.get("dialect"), given.get("type"))
    return next((found for name in names if name and (found := dialect_named(str(name)))), None)


def _complete(
    dialect: SqlDialect, found: dict[str, Any], given: dict[str, Any], inputs: Mapping[str, Any], folders: Sequence[str]
) -> Connection:
    if dialect.name == "sqlite":
        return Connection(dialect="sqlite", database=_file(str(found.get("database") or ""), folders))
    if not found.get("host"):
        raise ToolError(UNRESOLVED, f'"auth" does not say which server of {dialect.name}: it needs a host or a url')
    allowed = _OPTIONS.get(dialect.name, ())
    fields = {**found.pop("query", {}), **given, **{name: inputs[name] for name in allowed if inputs.get(name)}}
    options = {name: fields[name] for name in allowed if fields.get(name) not in (None, "")}
    try:
        port = int(found.get("port") or dialect.port)
    except ValueError:
        raise ToolError(UNRESOLVED, "the port of the credential is no number") from None
    texts = {name: str(found.get(name) or "") for name in ("host", "user", "password", "database")}
    return Connection(dialect=dialect.name, port=port, options=options, **texts)


def _of_url(url: str) -> dict[str, Any]:
    """The fields of a URL. Errors do not show the URL: any part of it may be a password."""
    try:
        parts = urlsplit(url)
        dialect = dialect_named(parts.scheme)
        if dialect is None:
            raise ToolError(UNRESOLVED, f"the url names no database that is known: write {_PLACES}")
        if dialect.name == "sqlite":
            return {"dialect": dialect, "database": unquote(url.partition("://")[2].removeprefix("/"))}
        if "@" in parts.path + parts.query + parts.fragment:
            raise ToolError(
                UNRESOLVED, "the url has an @ after its host: write / @ ? # in a password as %2F %40 %3F %23"
            )
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ToolError(UNRESOLVED, f"the url is none: write {_PLACES}") from None
    found = {
        "dialect": dialect,
        "host": host,
        "port": port,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.lstrip("/")),
    }
    return {name: value for name, value in found.items() if value} | {"query": dict(parse_qsl(parts.query))}


def _file(path: str, folders: Sequence[str]) -> str:
    """A database file in a data folder; without a file, a database in memory."""
    if path in ("", ":memory:"):
        return ""
    return allowed_path(path, folders, kind="sql.input")


if find_spec("sqlalchemy") is None:  # the child imports it: fail here, before a child starts
    raise ImportError("sqlalchemy is not installed")

_PROGRAM = Program(module="noetl.tools.sql.child", name="SQL", error="sql.error", retryable=True)
_LISTS = {ANY_OF: "any", ALL_OF: "all"}


class SqlTool(OwningTool):
    """`program` is what the child runs: another one in tests, whose drivers are in an environment of their own."""

    def __init__(self, program: Program = _PROGRAM) -> None:
        self._children, self._tables = ChildPool(program), TableFiles()
        super().__init__(self._children, self._tables)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.spec.get("exactly_once"):
            raise ToolError("sql.input", "spec.exactly_once is a promise of the postgres tool: sql cannot make it")
        connection = connection_of(inputs, context)
        if isinstance(load := inputs.get("load"), RowLoad):
            fields = {name: getattr(load, name) for name in ("table", "columns", "binary", "key", "empties")}
            call = {
                **_call(Bound(load.then), connection),
                **_limits(context),
                "load": {**fields, "file": str(load.file)},
            }
            await self._children.call(context.task_run.execution_id, {**call, "transaction": True})
            return ToolResult(result=None)
        work = request(await with_script(inputs, context.permissions.data_folders), question_marks=True)
        call = {**_call(work, connection), **_limits(context)}
        # SQL that begins or ends transactions itself must not run inside one of ours.
        call["transaction"] = context.spec.get("transaction") is not False and not (
            isinstance(work, Bound) and keeps_transactions(work)
        )
        if wants_table(context.spec) and isinstance(work, Bound):
            return await self._table(call, context)
        answer = await self._children.call(context.task_run.execution_id, call)
        answers = msgspec.convert(answer["answers"], list[SqlAnswer])
        if isinstance(work, Insertion):
            return ToolResult(result=reference_to(work, "sql.table", sum(each.row_count for each in answers)))
        return ToolResult(result=result_of(answers), wrapped=True)

    async def _table(self, call: dict[str, Any], context: ToolContext) -> ToolResult:
        """The rows of the last statement as a table."""
        with table_folder() as folder:
            csv, file = folder / "rows.csv", folder / "rows.parquet"
            answer = await self._children.call(context.task_run.execution_id, {**call, "rows_file": str(csv)})
            columns = msgspec.convert(answer["columns"], list[TypedColumn])
            await self._tables.from_csv(context.task_run.execution_id, csv, columns, file)
            csv.unlink()
            return ToolResult(result=await store_table(file, context, self._tables))

    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """Rows that a query returns after the cursor."""
        return await new_rows(self, inputs, poll, context)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by opening the database. Raises ToolError with the reason if it is refused."""
        connection = connection_of(inputs, context)
        statement = "SELECT 1 FROM dual" if connection.dialect == "oracle" else "SELECT 1"
        await self.run({"command": statement, **inputs}, context)
        return f"connected to the {connection}"


def _call(work: Bound | Insertion, connection: Connection) -> dict[str, Any]:
    call: dict[str, Any] = {"connection": msgspec.to_builtins(connection), "statements": [], "insertion": None}
    if isinstance(work, Insertion):
        call["insertion"] = {"table": work.name, "groups": work.groups, "key": work.key}
        return call
    for statement in work.statements:
        check_quotes(statement.parts, DIALECTS[connection.dialect])
        call["statements"].append(_parts(statement))
    return call


def _parts(statement: Statement) -> list[Any]:
    """Text unchanged, a value as {value}, the beginning of a comparison with a list as {list}."""
    fields: list[Any] = []
    for part in statement.parts:
        if isinstance(part, str):
            fields.append({"list": _LISTS[part]} if part in _LISTS else part)
        else:
            fields.append({"value": part.value})
    return fields


def _limits(context: ToolContext) -> dict[str, Any]:
    return {
        "max_rows": context.spec.get("max_rows"),
        "isolation": context.spec.get("isolation"),
        "policy": msgspec.to_builtins(context.addresses.policy),
    }


# Quotes: whether a database would read a statement as our lexer has read it.
#
# Templates are bound by the rules of standard SQL. Some databases have other rules: a backslash that escapes a quote,
# names in backticks, comments after #. For them a text that ends for our lexer may go on, and a value could leave its
# place. Such a statement is refused; the error says how to write it.

_QUOTES = ("'", '"')
_PREFIXES = "eEbBxXnNuUrR&"


def check_quotes(parts: Iterable[Part], dialect: SqlDialect) -> None:
    """Check a statement. Raises ToolError `sql.fragment`."""
    in_backticks = False
    for part in parts:
        if not isinstance(part, str):
            if in_backticks:
                raise _refusal(dialect, "a value stands in backticks: write {{ … | identifier }} without them")
        elif part.lstrip(_PREFIXES).startswith(_QUOTES):
            if in_backticks:
                raise _refusal(dialect, "a quote stands in backticks")
            _check_quoted(part, dialect)
        elif dialect.backticks:
            in_backticks ^= part.count("`") % 2 == 1
            if (
                dialect.hash_comments
                and "#" in part
                and not in_backticks
                and not part.lstrip().startswith(("--", "/*"))
            ):
                raise _refusal(dialect, "# begins a comment: write --")


def _check_quoted(text: str, dialect: SqlDialect) -> None:
    if dialect.backslashes and "\\" in text:
        raise _refusal(dialect, "quoted text holds a backslash: give the text as a value, {{ … }} or params")
    if dialect.backslashes and text.lstrip(_PREFIXES).startswith('"') and '""' in text[1:-1]:
        raise _refusal(dialect, 'a name holds "": give it another name')


def _refusal(dialect: SqlDialect, why: str) -> ToolError:
    return ToolError("sql.fragment", f"{dialect.name} would read this SQL in another way than it was checked: {why}")


class SnowflakeTool(SqlTool):
    """The tool of the kind `snowflake`: the `sql` tool with the warehouse, schema and role of Snowflake as inputs."""

    def __init__(self) -> None:
        if not is_installed("snowflake"):  # the child imports it; fail here, before a child starts
            raise ImportError("snowflake-sqlalchemy is not installed")
        super().__init__()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await super().run({"dialect": "snowflake", **inputs}, context)
