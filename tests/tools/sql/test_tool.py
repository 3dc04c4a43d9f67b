"""`sql` on SQLite and on a real MariaDB."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.events.outcomes import Outcome
from noetl.templates.sql.binding import bind
from noetl.tools.guarded_sockets import ReceivedTooMuchError
from noetl.tools.sql import child
from noetl.tools.sql.engines import engine_of
from noetl.tools.sql.tool import SqlTool
from tests.servers.mariadb import mariadb
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, outcome_of

pytestmark = [
    pytest.mark.timeout(600),  # the first run fetches MariaDB
    pytest.mark.asyncio(loop_scope="module"),  # one child process for all tests
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool() -> AsyncIterator[SqlTool]:
    tool = SqlTool()
    yield tool
    await tool.close()


@pytest.fixture(params=["sqlite", "mysql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The inputs that name a database."""
    return {"url": "sqlite:///shop.db"} if request.param == "sqlite" else {"auth": mariadb().auth}


async def ran(tool: SqlTool, database: dict[str, Any], folder: Path, /, **inputs: Any) -> Outcome:
    spec, more = inputs.pop("spec", None), inputs.pop("more", {})
    return await outcome_of(tool, {**database, **inputs}, spec, data_folders=(str(folder),), **more)


async def rows_of(tool: SqlTool, database: dict[str, Any], folder: Path, /, **inputs: Any) -> Any:
    outcome = await ran(tool, database, folder, **inputs)
    assert outcome.error is None, outcome.error
    return outcome.result.get("data", outcome.result)


async def error_of(tool: SqlTool, database: dict[str, Any], folder: Path, /, **inputs: Any) -> Any:
    outcome = await ran(tool, database, folder, **inputs)
    assert outcome.error is not None, outcome.result
    return outcome.error


def table() -> str:
    return f"t_{secrets.token_hex(6)}"


async def test_rows_are_written_and_read_back(tool: SqlTool, database: dict[str, Any], tmp_path: Path) -> None:
    name = table()
    await rows_of(
        tool,
        database,
        tmp_path,
        command=f"CREATE TABLE {name} (id INT PRIMARY KEY, label VARCHAR(50), price DECIMAL(10, 2))",
    )
    written = await rows_of(
        tool,
        database,
        tmp_path,
        table=name,
        args=[{"id": 1, "label": "ä'; --", "price": 1.5}, {"id": 2, "label": None, "price": 2}],
    )

    found = await rows_of(tool, database, tmp_path, command=f"SELECT id, label, price FROM {name} ORDER BY id")

    assert written["row_count"] == 2
    assert found == [{"id": 1, "label": "ä'; --", "price": 1.5}, {"id": 2, "label": None, "price": 2}]


@pytest.mark.parametrize(
    "value",
    [
        "it's",
        "\\' OR 1=1 -- ",
        "'; DROP TABLE x; --",
        '"',
        "`",
        "%s %(a)s :p1 ?",
        "a\nb",
        "\\",
        "💡",
        "# not a comment",
    ],
)
async def test_any_template_value_is_bound(tool: SqlTool, database: dict[str, Any], tmp_path: Path, value: str) -> None:
    scope = {"x": value}

    bare = await rows_of(
        tool, database, tmp_path, command=bind("SELECT one FROM (SELECT 1 AS one) s WHERE '{{ x }}' = {{ x }}", scope)
    )
    quoted = await rows_of(
        tool, database, tmp_path, command=bind("SELECT '<{{ x }}>' AS found, '100%' AS other", scope)
    )

    assert bare == [{"one": 1}]
    assert quoted == [{"found": f"<{value}>", "other": "100%"}]


@pytest.mark.parametrize(
    ("items", "inside", "outside"), [([1, 3], [1, 3], [2]), ([], [], [1, 2, 3]), (["2"], [2], [1, 3])]
)
async def test_a_list_is_expanded_in_in_even_if_empty(
    tool: SqlTool, database: dict[str, Any], tmp_path: Path, items: list[Any], inside: list[int], outside: list[int]
) -> None:
    source = "(SELECT 1 AS n UNION SELECT 2 UNION SELECT 3) numbers"
    if database.get("url"):
        items = [int(item) for item in items]  # SQLite compares a number with a text as unequal

    found = await rows_of(
        tool,
        database,
        tmp_path,
        command=bind(f"SELECT n FROM {source} WHERE n IN ({{{{ xs }}}}) ORDER BY n", {"xs": items}),
    )
    rest = await rows_of(
        tool,
        database,
        tmp_path,
        command=bind(f"SELECT n FROM {source} WHERE n NOT IN ({{{{ xs }}}}) ORDER BY n", {"xs": items}),
    )

    assert [row["n"] for row in found] == inside
    assert [row["n"] for row in rest] == outside


async def test_params_fill_the_placeholders_of_the_author(
    tool: SqlTool, database: dict[str, Any], tmp_path: Path
) -> None:
    by_place = await rows_of(tool, database, tmp_path, command="SELECT ? AS a, ? AS b", params=[1, "x"])
    by_name = await rows_of(tool, database, tmp_path, command="SELECT :a AS a", params={"a": "y"})

    assert by_place == [{"a": 1, "b": "x"}]
    assert by_name == [{"a": "y"}]


async def test_an_upsert_replaces_rows_by_their_key(tool: SqlTool, database: dict[str, Any], tmp_path: Path) -> None:
    name = table()
    await rows_of(tool, database, tmp_path, command=f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)")

    for n in (1, 2):
        await rows_of(tool, database, tmp_path, table=name, args={"id": 7, "n": n}, mode="upsert", key="id")

    assert await rows_of(tool, database, tmp_path, command=f"SELECT * FROM {name}") == [{"id": 7, "n": 2}]


async def test_statements_are_one_transaction_unless_disabled(
    tool: SqlTool, database: dict[str, Any], tmp_path: Path
) -> None:
    name = table()
    await rows_of(tool, database, tmp_path, command=f"CREATE TABLE {name} (id INT)")
    broken = [f"INSERT INTO {name} VALUES (1)", "SELECT nothing FROM nowhere"]

    error = await error_of(tool, database, tmp_path, command=broken)
    kept_none = await rows_of(tool, database, tmp_path, command=f"SELECT * FROM {name}")
    await error_of(tool, database, tmp_path, command=broken, spec={"transaction": False})
    kept_one = await rows_of(tool, database, tmp_path, command=f"SELECT * FROM {name}")

    assert error.kind == "sql.error"
    assert error.code == ("SQLITE_ERROR" if database.get("url") else "1146")
    assert kept_none == []
    assert kept_one == [{"id": 1}]


async def test_a_result_is_limited_in_size(tool: SqlTool, database: dict[str, Any], tmp_path: Path) -> None:
    error = await error_of(tool, database, tmp_path, command="SELECT 1 UNION SELECT 2", spec={"max_rows": 1})

    assert error.kind == "result.too_large"


async def test_values_of_every_type_are_returned_as_plain_data(tool: SqlTool, tmp_path: Path) -> None:
    sql = "SELECT CAST('2026-02-03 04:05:06' AS DATETIME) AS t, 1.10 AS d, x'00ff' AS b, NULL AS n"
    sql += ", 18446744073709551615 AS big"

    (row,) = await rows_of(tool, {"auth": mariadb().auth}, tmp_path, command=sql)

    assert row == {"t": "2026-02-03T04:05:06", "d": 1.1, "b": "AP8=", "n": None, "big": "18446744073709551615"}


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT `{{ x }}`", "backticks"),
        ("SELECT 1 # {{ x }}", "# begins a comment"),
    ],
)
async def test_sql_that_mysql_reads_differently_is_refused(tool: SqlTool, tmp_path: Path, sql: str, why: str) -> None:
    error = await error_of(tool, {"auth": mariadb().auth}, tmp_path, command=bind(sql, {"x": "1"}))

    assert error.kind == "sql.fragment"
    assert why in error.message


async def test_a_placeholder_in_a_comment_of_mysql_is_refused(tool: SqlTool, tmp_path: Path) -> None:
    """A line break in its value would end the comment."""
    error = await error_of(tool, {"auth": mariadb().auth}, tmp_path, command="SELECT 1 # ?", params=["\n, 2"])

    assert error.kind == "sql.fragment"


async def test_a_backslash_cannot_end_a_constant(tool: SqlTool, tmp_path: Path) -> None:
    """Where SQL takes no parameter the value is written out: MySQL must read the backslash as the standard does."""
    name, evil = table(), "\\' , ADD COLUMN evil INT --"
    await rows_of(tool, {"auth": mariadb().auth}, tmp_path, command=f"CREATE TABLE {name} (id INT)")

    await rows_of(
        tool,
        {"auth": mariadb().auth},
        tmp_path,
        command=bind(f"ALTER TABLE {name} COMMENT = '{{{{ x }}}}'", {"x": evil}),
    )
    columns = await rows_of(tool, {"auth": mariadb().auth}, tmp_path, command=f"SHOW COLUMNS FROM {name}")

    assert [row["Field"] for row in columns] == ["id"]


async def test_a_wrong_password_is_reported_with_the_code_of_the_database(tool: SqlTool, tmp_path: Path) -> None:
    auth = {**mariadb().auth, "password": "not the password"}

    error = await error_of(tool, {"auth": auth}, tmp_path, command="SELECT 1")

    assert (error.kind, error.code, error.retryable) == ("sql.error", "1045", False)
    assert "not the password" not in error.message


async def test_a_lost_connection_is_retryable(tool: SqlTool, tmp_path: Path) -> None:
    with Proxy("127.0.0.1", mariadb().port) as line:
        auth = {**mariadb().auth, "port": line.port}
        running = asyncio.create_task(ran(tool, {"auth": auth}, tmp_path, command="SELECT SLEEP(600)"))
        while line.carried < 300:
            await asyncio.sleep(0.01)
        line.cut()
        outcome = await running
        again = await rows_of(tool, {"auth": auth}, tmp_path, command="SELECT 1 AS one")

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code, outcome.error.retryable) == ("sql.error", "2013", True)
    assert again == [{"one": 1}]


async def test_a_cancelled_task_ends_its_process(tool: SqlTool, tmp_path: Path) -> None:
    running = asyncio.create_task(ran(tool, {"auth": mariadb().auth}, tmp_path, command="SELECT SLEEP(600)"))
    while not tool._children._busy:
        await asyncio.sleep(0.01)
    (child,) = tool._children._busy

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert not Path(f"/proc/{child.pid}").exists()


async def test_a_private_address_is_reached_only_if_the_policy_allows(tool: SqlTool, tmp_path: Path) -> None:
    more = {"addresses": AddressGuard(CLOSED)}

    error = await error_of(tool, {"auth": mariadb().auth}, tmp_path, command="SELECT 1", more=more)
    by_name = await error_of(
        tool, {"auth": {**mariadb().auth, "host": "localhost"}}, tmp_path, command="SELECT 1", more=more
    )

    assert error.kind == by_name.kind == "tool.not_allowed"
    assert "private address" in error.message


@pytest.mark.parametrize("path", ["/etc/x.db", "../x.db"])
async def test_a_database_file_outside_the_data_folders_is_refused_by_sqlite(
    tool: SqlTool, tmp_path: Path, path: str
) -> None:
    error = await error_of(tool, {"url": f"sqlite:///{path}"}, tmp_path, command="SELECT 1")

    assert error.kind == "sql.input"


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE '{folder}/other.db' AS o",
        "VACUUM INTO '{folder}/copy.db'",
        "SELECT fts3_tokenizer('simple')",
        "SELECT FTS3_tokenizer('own', 'AAAAAAAA')",
        "PRAGMA writable_schema = 1",
        "PRAGMA temp_store_directory = '{folder}'",
    ],
)
async def test_sqlite_opens_no_other_file_and_loads_no_extension(tool: SqlTool, tmp_path: Path, sql: str) -> None:
    inputs = {"command": sql.format(folder=tmp_path), "spec": {"transaction": False}}

    error = await error_of(tool, {"url": "sqlite:///shop.db"}, tmp_path, **inputs)

    assert error.kind == "sql.error"
    assert "authoriz" in error.message  # of a function, SQLite gives no code of its own
    assert {path.name for path in tmp_path.iterdir()} <= {"shop.db"}


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "does not say which database"),
        ({"url": "ftp://x"}, "no database that is known"),
        ({"auth": {"dialect": "mysql", "password": "hunter22"}}, "does not say which server"),
        ({"url": "mysql://u:x/hunter22@host/db"}, "@"),
    ],
)
async def test_a_missing_credential_field_is_named_without_secrets(
    tool: SqlTool, tmp_path: Path, inputs: dict[str, Any], said: str
) -> None:
    error = await error_of(tool, inputs, tmp_path, command="SELECT 1")

    assert error.kind == "keychain.unresolved"
    assert said in error.message
    assert "hunter22" not in error.message


async def test_no_secret_appears_in_an_error(tool: SqlTool, tmp_path: Path) -> None:
    chosen = [secrets.token_urlsafe(12) for _ in range(50)]

    for secret in chosen:
        auth = {**mariadb().auth, "password": secret}
        error = await error_of(
            tool, {"auth": auth}, tmp_path, command=bind("SELECT * FROM nowhere WHERE a = {{ x }}", {"x": secret})
        )
        assert secret.encode() not in msgspec.json.encode(error)


async def test_a_credential_check_names_what_it_reached(tool: SqlTool) -> None:
    said = await tool.check({"auth": mariadb().auth}, context())

    assert said == 'connected to the mysql database "shop" at 127.0.0.1'


ROWS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 11000) SELECT i FROM n"


def _call_for_file(tmp_path: Path) -> dict[str, Any]:
    connection = {"dialect": "sqlite", "database": str(tmp_path / "a.db"), "options": {}}
    more: dict[str, Any] = {"policy": {}, "isolation": None, "transaction": False, "insertion": None, "max_rows": None}
    return {"connection": connection, "statements": [[ROWS]], "rows_file": str(tmp_path / "rows.csv"), **more}


@pytest.mark.req("TOOL-04")
async def test_what_arrives_for_rows_that_go_to_a_file_is_limited_between_two_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that a server never ends is in no batch, and would fill the memory."""
    left: list[int | None] = []

    class Batches(child.RowFile):
        def write(self, rows: Any) -> None:
            left.append(child._sockets.left)
            child._sockets.left = 7  # the rest of the limit was used for the next rows
            super().write(rows)

    def opened(connection: Any) -> Any:
        left.append(child._sockets.left)
        return engine_of(connection)

    monkeypatch.setattr(child, "RowFile", Batches)
    monkeypatch.setattr(child, "engine_of", opened)
    done = msgspec.json.decode(child._answer_to(_call_for_file(tmp_path)))
    before = left[:]
    monkeypatch.setattr(Batches, "write", _received_too_much)
    ended = msgspec.json.decode(child._answer_to(_call_for_file(tmp_path)))

    assert done["answers"][0]["row_count"] == 11_000
    assert before == [1 << 30] * 4, "before the first, too"
    assert ended["error"]["kind"] == "result.too_large"
    assert ended["error"]["message"] == "the database sent more than 1024 MiB for 5000 rows: ask for less"


def _received_too_much(*_: Any) -> None:
    child._sockets.left = -1
    raise ReceivedTooMuchError("more was received than is allowed")
