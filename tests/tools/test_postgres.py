"""The `postgres` tool against a real server: results, parameters, transactions, errors, cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.events.outcomes import Outcome, Status
from noetl.templates.sql.binding import bind
from noetl.tools.postgres.tool import PostgresTool
from tests.servers.postgres import pg_auth, server  # noqa: F401  a fixture
from tests.tools.sql_tasks import context, outcome_of

Run = Callable[..., Awaitable[Outcome]]


@pytest.fixture
async def tool() -> AsyncIterator[PostgresTool]:
    made = PostgresTool()
    yield made
    await made.close()


@pytest.fixture
def run(tool: PostgresTool, pg_auth: dict[str, Any]) -> Run:  # noqa: F811
    """Run authored SQL in a scope, as a worker would."""

    async def running(sql: Any = None, scope: dict[str, Any] | None = None, **more: Any) -> Outcome:
        spec, folders = more.pop("spec", None), more.pop("folders", ())
        marker = more.pop("marker", "exec/run/task/0")
        inputs = {"auth": pg_auth, **more}
        if sql is not None:
            inputs["command"] = bind(sql, scope or {})
        return await outcome_of(tool, inputs, spec, key=marker, data_folders=folders)

    return running


async def rows(run: Run, sql: str, scope: dict[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
    outcome = await run(sql, scope, **more)
    assert outcome.error is None, outcome.error
    found: list[dict[str, Any]] = outcome.result["data"]
    return found


@pytest.mark.req("TOOL-05", "OUT-01", "OUT-02")
async def test_a_select_gives_rows_as_mappings_with_their_columns_and_count(run: Run) -> None:
    outcome = await run("SELECT 1 AS n")

    assert outcome.status is Status.SUCCESS
    assert outcome.result["data"] == [{"n": 1}]
    assert outcome.result["row_count"] == 1
    assert outcome.result["columns"] == ["n"]
    assert outcome.wrapped
    assert outcome.helpers == {"pg": {"code": "00000", "message": None}}
    assert outcome.meta.readable().keys() >= {
        *("attempt", "duration_ms", "started_at", "finished_at", "trace_id", "task_run_id"),
    }


@pytest.mark.req("TOOL-05")
async def test_every_statement_result_is_readable_and_the_last_one_is_the_payload(run: Run) -> None:
    outcome = await run("CREATE TEMP TABLE c (a int); INSERT INTO c VALUES (1), (2); SELECT a FROM c ORDER BY a;")

    assert outcome.result["data"] == [{"a": 1}, {"a": 2}]
    assert outcome.result["command_0"] == {"rows": [], "columns": [], "row_count": 0}
    assert outcome.result["command_1"] == {"rows": [], "columns": [], "row_count": 2}
    assert outcome.result["command_2"] == {"rows": [{"a": 1}, {"a": 2}], "columns": ["a"], "row_count": 2}


@pytest.mark.req("TOOL-05", "RES-05")
async def test_table_and_args_insert_a_row_and_return_a_reference(run: Run) -> None:
    await run("CREATE TABLE t (id serial, a int, j jsonb, tags text[], at timestamptz)")

    outcome = await run(table="t", args={"a": 1, "j": {"x": [1]}, "tags": ["p", "q"], "at": "2024-05-06T07:08:09Z"})

    assert outcome.result["store"] == "postgres.table"
    assert outcome.result["key"] == "t"
    assert outcome.result["row_count"] == 1
    assert outcome.result["size"] > 0
    assert not outcome.wrapped
    assert await rows(run, "SELECT * FROM t") == [
        {"id": 1, "a": 1, "j": {"x": [1]}, "tags": ["p", "q"], "at": "2024-05-06T07:08:09Z"}
    ]


JSON_TEXTS: list[tuple[Any, Any]] = [
    ('{"a": [1, null]}', {"a": [1, None]}),
    ('  [1, "x"]\n', [1, "x"]),
    ("plain text", "plain text"),
    ("{ no json", "{ no json"),
    ("[draft]", "[draft]"),
    ("123", "123"),
    ("true", "true"),
    (["{}", "x"], ["{}", "x"]),  # text inside of what is no text is left alone
    (None, None),
]


@pytest.mark.req("TOOL-05")
async def test_json_text_is_stored_as_json_in_a_json_column(run: Run) -> None:
    """As it would in quotes; other text is text, in JSON too."""
    await run('CREATE DOMAIN doc AS jsonb; CREATE TABLE "J\'s" (id int, j json, b jsonb, d doc, t text)')
    given = [{"id": n, "j": one, "b": one, "d": one, "t": "{}"} for n, (one, _) in enumerate(JSON_TEXTS)]

    outcome = await run(table='"J\'s"', args=[*given, {"id": 99, "t": "[]"}])

    assert outcome.error is None
    found = await rows(run, 'SELECT j, b, d, t FROM "J\'s" WHERE id < 99 ORDER BY id')
    assert found == [{"j": one, "b": one, "d": one, "t": "{}"} for _, one in JSON_TEXTS]


async def test_numbers_in_json_text_keep_their_digits(run: Run) -> None:
    await run("CREATE TABLE precise (b jsonb)")

    await run(table="precise", args={"b": '{"n": 12345678901234567890.123456789}'})

    assert await rows(run, "SELECT b ->> 'n' AS n FROM precise") == [{"n": "12345678901234567890.123456789"}]


@pytest.mark.req("TOOL-05")
async def test_rows_with_different_columns_use_defaults_for_missing_ones(run: Run) -> None:
    await run("CREATE TABLE d (a int, b text DEFAULT 'none')")

    outcome = await run(table="d", args=[{"a": 1}, {"a": 2, "b": None}, {"a": 3, "b": "x"}])

    assert outcome.result["row_count"] == 3
    assert [row["b"] for row in await rows(run, "SELECT b FROM d ORDER BY a")] == ["none", None, "x"]


@pytest.mark.req("TOOL-05")
async def test_upsert_updates_the_existing_row(run: Run) -> None:
    await run("CREATE TABLE u (id int PRIMARY KEY, n int); INSERT INTO u VALUES (1, 1)")

    await run(table="public.u", args=[{"id": 1, "n": 5}, {"id": 2, "n": 6}], mode="upsert", key="id")

    assert await rows(run, "SELECT * FROM u ORDER BY id") == [{"id": 1, "n": 5}, {"id": 2, "n": 6}]


@pytest.mark.req("TOOL-05")
async def test_an_invalid_table_name_is_refused(run: Run) -> None:
    outcome = await run(table="t; DROP TABLE t", args={"a": 1})

    assert outcome.error is not None
    assert outcome.error.kind == "sql.fragment"


NASTY = "O'Reilly\"; DROP TABLE people; -- \\' $$ /* \u2028 \U0001f600"


@pytest.mark.req("TOOL-05")
@pytest.mark.parametrize(
    ("sql", "scope", "expected"),
    [
        ("SELECT {{ n }} AS v", {"n": 5}, 5),
        ("SELECT {{ n }} AS v", {"n": 5_000_000_000}, 5_000_000_000),
        ("SELECT {{ n }} AS v", {"n": 1.5}, 1.5),
        ("SELECT {{ n }} AS v", {"n": True}, True),
        ("SELECT {{ n }} AS v", {"n": None}, None),
        ("SELECT '{{ s }}' AS v", {"s": NASTY}, NASTY),
        ("SELECT '{{ s }}' AS v", {"s": 5}, "5"),
        ("SELECT '{{ s }}' AS v", {"s": None}, None),
        ("SELECT 'it''s {{ s }}!' AS v", {"s": NASTY}, f"it's {NASTY}!"),
        (r"SELECT E'a\n\'{{ s }}' AS v", {"s": NASTY}, f"a\n'{NASTY}"),
        ("SELECT $q$a'{{ s }}$q$ AS v", {"s": NASTY}, f"a'{NASTY}"),
        ("SELECT length({{ s }}) AS v", {"s": NASTY}, len(NASTY)),
        ("SELECT {{ n }} + {{ m }} AS v", {"n": 2, "m": 3}, 5),
        ("SELECT 1 -{{ n }} AS v", {"n": -1}, 2),
        ("SELECT DATE '2024-01-31' + {{ n }} AS v", {"n": 1}, "2024-02-01"),
        ("SELECT DATE '{{ d }}' + 1 AS v", {"d": "2024-01-31"}, "2024-02-01"),
        ("SELECT now() > now() - INTERVAL '{{ n }} days' AS v", {"n": 3}, True),
        ("SELECT INTERVAL '{{ n }}' DAY AS v", {"n": 3}, "P3D"),
        ("SELECT jsonb_build_object('a', {{ n }}) AS v", {"n": 5}, {"a": 5}),
        ("SELECT '{{ o }}'::jsonb AS v", {"o": {"a": [1, None]}}, {"a": [1, None]}),
        ("SELECT {{ o }}::jsonb AS v", {"o": {"a": "x'y"}}, {"a": "x'y"}),
        ("SELECT count(*) AS v FROM generate_series(1, {{ n }})", {"n": 7}, 7),
        ("SELECT count(*) AS v FROM generate_series(1, 9) g WHERE g IN ({{ ids }})", {"ids": [2, 3, 20]}, 2),
        ("SELECT count(*) AS v FROM generate_series(1, 9) g WHERE g NOT IN ({{ ids }})", {"ids": []}, 9),
        ("SELECT count(*) AS v FROM generate_series(1, 9) g WHERE g IN ({{ ids }})", {"ids": []}, 0),
        ("SELECT count(*) AS v FROM generate_series(1, 9) g WHERE g IN ({{ a }}, {{ b }})", {"a": 1, "b": "2"}, 2),
        ("SELECT count(*) AS v FROM generate_series(1, 9) g WHERE g BETWEEN {{ a }} AND {{ b }}", {"a": 1, "b": 3}, 3),
        ("SELECT array_length({{ a }}::int[], 1) AS v", {"a": [1, None, 3]}, 3),
        ("SELECT ({{ a }}::text[])[2] AS v", {"a": ["x", NASTY]}, NASTY),
        ("SELECT 'x' AS v LIMIT {{ n }}", {"n": "1"}, "x"),
        ("SELECT CASE WHEN {{ n }} > 1 THEN {{ s }} ELSE 'no' END AS v", {"n": 2, "s": NASTY}, NASTY),
        ("SELECT substring({{ s }} FROM {{ n }} FOR 2) AS v", {"s": "abcdef", "n": 2}, "bc"),
        ("SELECT 1 IS DISTINCT FROM {{ n }} AS v", {"n": None}, True),
        ("SELECT {{ c }} AS v FROM (SELECT 7 AS seven) q", {"c": "seven"}, 7),
        ('SELECT {{ c | identifier }} AS v FROM (SELECT 7 AS "a b") q', {"c": "a b"}, 7),
        ("SELECT {{ f | sql }} AS v", {"f": "1 + 1"}, 2),
        ("SELECT 1 AS v -- {{ missing.name }}\n", {}, 1),
        ("{{ s }}", {"s": "SELECT 3 AS v"}, 3),
    ],
)
async def test_a_template_means_the_same_as_its_value_written_in_its_place(
    run: Run, sql: str, scope: dict[str, Any], expected: Any
) -> None:
    assert [row["v"] for row in await rows(run, sql, scope)] == [expected]


@pytest.mark.req("TOOL-05")
async def test_text_is_unchanged_in_every_kind_of_quotes(run: Run) -> None:
    """Bound or written as a constant: the server must read exactly the text that was given."""
    pieces = [
        "'",
        "''",
        '"',
        "\\",
        "\\'",
        "--",
        "/*",
        "*/",
        ";",
        "$$",
        "$q$",
        "\n",
        "\r",
        "\t",
        "é",
        "\u2028",
        "{{ x }}",
        "%s",
        "$1",
    ]
    scope = {"texts": [first + "a" + second for first in pieces for second in pieces]}
    sql = (
        "SELECT '{{ texts[%d] }}' AS bound, text '{{ texts[%d] }}' AS constant, text 'it''s {{ texts[%d] }}' AS mixed, "
        "$q$ {{ texts[%d] }}$q$ AS dollar, E'\\\\{{ texts[%d] }}' AS escaped, upper({{ texts[%d] }}) AS argument, "
        '1 AS "{{ texts[%d] }}"'
    )

    for index, text in enumerate(scope["texts"]):
        (row,) = await rows(run, sql.replace("%d", str(index)), scope)

        assert row == {
            "bound": text,
            "constant": text,
            "mixed": f"it's {text}",
            "dollar": f" {text}",
            "escaped": f"\\{text}",
            "argument": text.upper(),
            text: 1,
        }


@pytest.mark.req("TOOL-05")
async def test_text_is_converted_to_the_type_of_its_column(run: Run) -> None:
    await run(
        "CREATE TYPE mood AS ENUM ('good', 'bad'); "
        "CREATE TABLE k (i int, b int8, n numeric(10,2), d date, ts timestamptz, u uuid, f bool, m mood, x text)"
    )
    scope = {"i": "7", "u": "8b1c1ea0-0000-4000-8000-000000000001", "s": NASTY}

    outcome = await run(
        "INSERT INTO k VALUES ('{{ i }}', {{ i }}, '{{ i }}.50', '2024-02-{{ i }}', "
        "'2024-02-01 10:00+02', {{ u }}, 'yes', '{{ 'good' }}', {{ s }}) RETURNING *",
        scope,
    )

    assert outcome.result["data"] == [
        {"i": 7, "b": 7, "n": 7.5, "d": "2024-02-07", "ts": "2024-02-01T08:00:00Z"}
        | {"u": scope["u"], "f": True, "m": "good", "x": NASTY}
    ]
    assert (
        len(
            await rows(
                run, "SELECT 1 FROM k WHERE i = '{{ i }}' AND u = {{ u }} AND m = {{ m }}", {**scope, "m": "good"}
            )
        )
        == 1
    )
    refused = await run("SELECT * FROM k WHERE i = {{ s }}", scope)
    assert refused.helpers["pg"]["code"] == "22P02"


@pytest.mark.parametrize(("text", "code"), [("a\x00b", "22021"), ("a\ud800b", "22000")])
async def test_text_that_postgres_cannot_store_is_an_ordinary_error(run: Run, text: str, code: str) -> None:
    outcome = await run("SELECT upper({{ s }})", {"s": text})

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == ("pg.error", code)
    assert "ud800" not in str(outcome.error)


@pytest.mark.req("TOOL-05")
@pytest.mark.parametrize(
    ("sql", "params", "expected"),
    [
        ("SELECT $1::int + $2::int AS v", [1, 2], 3),
        ("SELECT $2 || $1 AS v", ["a", "b"], "ba"),
        ("SELECT %s || %s AS v", ["a", "b"], "ab"),
        ("SELECT :n::int + %(n)s::int AS v", {"n": 4}, 8),
        ("SELECT 'a:n' || :n AS v", {"n": "x"}, "a:nx"),
        ("SELECT count(*) AS v FROM generate_series(1, 3) g WHERE g = ANY(:ids)", {"ids": [1, 9]}, 1),
        ("SELECT $1 AS v; SELECT $1 || '!' AS v", ["a"], "a!"),
        ("SELECT '5%%' || (7 %% 4) || %s AS v", ["x"], "5%3x"),
        ("SELECT count(*) AS v FROM generate_series(1, 3) g WHERE g=%s OR g>=%s", [1, 3], 2),
    ],
)
async def test_params_fill_placeholders_by_position_and_by_name(run: Run, sql: str, params: Any, expected: Any) -> None:
    assert [row["v"] for row in await rows(run, sql, params=params)] == [expected]


async def test_unmatched_placeholders_and_values_are_reported(run: Run) -> None:
    missing = await run("SELECT $2", params=["a"])
    unused = await run("SELECT $1", params=["a", "b"])

    assert missing.error is not None
    assert missing.error.message == "$2 has no value: params holds 1"
    assert unused.error is not None
    assert unused.error.message == "no placeholder takes value number 2 of params"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("12345678901234567890::numeric", "12345678901234567890"),
        ("0.1::numeric", 0.1),
        ("5.00::numeric", 5),
        ("0.12345678901234567890123::numeric", "0.12345678901234567890123"),
        ("'NaN'::numeric", "NaN"),
        ("'Infinity'::float8", "Infinity"),
        ("'2024-01-02 03:04:05.5+02'::timestamptz", "2024-01-02T01:04:05.500000Z"),
        ("'2024-01-02 03:04:05'::timestamp", "2024-01-02T03:04:05"),
        ("'infinity'::timestamptz", "infinity"),
        ("'-infinity'::date", "-infinity"),
        ("'03:04:05'::time", "03:04:05"),
        ("'1 month 2 days'::interval", "P1M2D"),
        (r"'\x00ff'::bytea", "AP8="),
        ("'8b1c1ea0-0000-4000-8000-000000000001'::uuid", "8b1c1ea0-0000-4000-8000-000000000001"),
        ("'{\"a\": [1, null]}'::json", {"a": [1, None]}),
        ("ARRAY['{\"a\": 1}'::jsonb]", [{"a": 1}]),
        ("ARRAY[[1,2],[3,4]]", [[1, 2], [3, 4]]),
        ("int4range(1, 5)", "[1,5)"),
        ("tstzrange('2024-01-01Z', NULL)", "[2024-01-01T00:00:00Z,)"),
        ("ROW(1, 'a')", [1, "a"]),
        ("(SELECT q FROM (SELECT 1 AS a, '[2]'::jsonb AS b, '1 day'::interval AS c) q)", [1, [2], "P1D"]),
        ("'1 month -2 days 1.5 s'::interval", "P1M-2DT1.5S"),
        ("'0 s'::interval", "PT0S"),
        ("B'101'", "101"),
        ("'10.0.0.1'::inet", "10.0.0.1"),
        ("'(1,2)'::point", [1.0, 2.0]),
        ("NULL::int", None),
    ],
)
async def test_values_are_returned_as_lossless_json(run: Run, expression: str, expected: Any) -> None:
    (row,) = await rows(run, f"SELECT {expression} AS v")

    assert row["v"] == expected
    assert type(row["v"]) is type(expected)


@pytest.mark.req("OUT-02", "OUT-03")
async def test_an_error_of_the_server_has_its_sqlstate(run: Run) -> None:
    await run("CREATE TABLE q (id int PRIMARY KEY); INSERT INTO q VALUES (1)")

    outcome = await run("INSERT INTO q VALUES (1)")

    assert outcome.status is Status.ERROR
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code, outcome.error.retryable) == ("pg.error", "23505", False)
    assert outcome.error.details is not None
    assert outcome.error.details["constraint_name"] == "q_pkey"
    assert outcome.helpers["pg"]["code"] == "23505"
    assert "duplicate key" in outcome.helpers["pg"]["message"]


@pytest.mark.req("OUT-02")
async def test_a_connection_error_has_null_helpers(tool: PostgresTool) -> None:
    outcome = await outcome_of(tool, {"command": "SELECT 1", "auth": "pg_k8s"})

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message) == (
        "keychain.unresolved",
        'the credential "pg_k8s" is not known here',
    )
    assert outcome.helpers == {"pg": {"code": None, "message": None}}


@pytest.mark.req("TOOL-05")
@pytest.mark.parametrize("auth", ["pg_k8s", {"type": "postgres", "credential": "pg_k8s"}], ids=["name", "mapping"])
async def test_auth_names_a_credential_that_the_context_resolves(
    tool: PostgresTool,
    pg_auth: dict[str, Any],  # noqa: F811
    auth: Any,
) -> None:
    stored = {
        "type": "postgres",
        "data": {"db_host": pg_auth["host"], "db_user": "postgres", "db_name": pg_auth["database"]},
    }

    outcome = await outcome_of(
        tool, {"command": "SELECT current_database() AS d", "auth": auth}, resolve={"pg_k8s": stored}.__getitem__
    )

    assert outcome.result["data"] == [{"d": pg_auth["database"]}]


@pytest.mark.parametrize(("kind", "package"), [("postgres", "asyncpg"), ("duckdb", "duckdb")])
def test_a_kind_without_its_driver_names_its_extra(kind: str, package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None; from noetl.tools.registry import Registry\n"
        f"try: Registry().tool({kind!r})\n"
        "except Exception as problem: print(problem.kind, problem)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert (
        done.stdout.strip()
        == f'tool.unknown_kind tool kind "{kind}" needs an extra: pip install "noetl-engine[{kind}]"'
    )


async def test_a_credential_is_tested_and_a_rejected_one_reported_with_its_sqlstate(
    tool: PostgresTool,
    pg_auth: dict[str, Any],  # noqa: F811
) -> None:
    reached = await tool.check({"auth": pg_auth}, context())
    wrong = {**pg_auth, "user": "nobody_like_this", "password": "a password of nobody"}
    with pytest.raises(ToolError, match="nobody_like_this") as refused:
        await tool.check({"auth": wrong}, context())

    assert reached.startswith("connected to the ")
    assert refused.value.details["code"] == "28000"
    assert "a password of nobody" not in str(refused.value)


async def test_an_unreachable_server_is_reported_without_the_password(tool: PostgresTool) -> None:
    auth = "postgresql://me:sesame@127.0.0.1:1/db"

    outcome = await outcome_of(tool, {"command": "SELECT 1", "auth": auth})

    assert outcome.error is not None
    assert outcome.error.kind == "pg.error"
    assert outcome.error.retryable
    assert outcome.error.message.startswith('cannot connect to database "db" at 127.0.0.1:1 as me: ')
    assert "sesame" not in str(outcome)


async def test_the_password_of_the_worker_is_never_sent_to_a_server_of_a_playbook(
    tool: PostgresTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may ask for a password in clear text; PGPASSWORD of the worker must not be the answer."""
    monkeypatch.setenv("PGPASSWORD", "canary")
    received: list[bytes] = []
    serving: list[asyncio.Task[None]] = []

    async def greedy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            received.append(await reader.read(1000))
            if received[-1][4:8] == b"\x04\xd2\x16\x2f":  # asks for TLS
                writer.write(b"N")
                received.append(await reader.read(1000))
            writer.write(b"R\x00\x00\x00\x08\x00\x00\x00\x03")  # "send the password in clear text"
            received.append(await reader.read(1000))

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.ensure_future(greedy(reader, writer)))

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        await outcome_of(tool, {"command": "SELECT 1", "auth": {"host": "127.0.0.1", "port": port, "user": "me"}})
        await asyncio.gather(*serving)  # what was sent last has come as well

    assert received
    assert b"canary" not in b"".join(received)


@pytest.mark.req("OUT-03")
async def test_a_connection_closed_by_the_server_is_retryable(run: Run) -> None:
    outcome = await run("SELECT pg_terminate_backend(pg_backend_pid())")

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("pg.error", True)
    assert outcome.error.code in ("57P01", "08003")  # the server's word, or the driver's when the line is cut first
    assert await rows(run, "SELECT 1 AS n") == [{"n": 1}]


async def test_a_record_of_a_named_type_is_a_mapping(run: Run) -> None:
    await run("CREATE TYPE pair AS (a int, b jsonb)")

    assert await rows(run, """SELECT ROW(1, '{"x": 1}')::pair AS v""") == [{"v": {"a": 1, "b": {"x": 1}}}]


async def test_all_statements_of_a_task_are_one_transaction(run: Run) -> None:
    await run("CREATE TABLE one (a int)")

    outcome = await run("INSERT INTO one VALUES (1); INSERT INTO one VALUES (1 / 0)")

    assert outcome.helpers["pg"]["code"] == "22012"
    assert await rows(run, "SELECT * FROM one") == []


async def test_without_a_transaction_each_statement_is_separate(run: Run) -> None:
    await run("CREATE TABLE single (a int)")

    await run("INSERT INTO single VALUES (1); INSERT INTO single VALUES (1 / 0)", spec={"transaction": False})
    vacuum = await run("VACUUM single; SELECT count(*) AS n FROM single", spec={"transaction": False})
    refused = await run("VACUUM single")

    assert vacuum.result["data"] == [{"n": 1}]
    assert refused.error is not None
    assert refused.error.message.endswith("spec.transaction: false runs each statement by itself")


async def test_sql_with_its_own_transactions_keeps_them(run: Run) -> None:
    await run("CREATE TABLE own (a int)")

    kept = await run("BEGIN; INSERT INTO own VALUES (1); COMMIT; BEGIN; INSERT INTO own VALUES (2); ROLLBACK")
    left_open = await run("BEGIN; INSERT INTO own VALUES (3)")

    assert kept.error is None
    assert left_open.error is not None
    assert "does not end it" in left_open.error.message
    assert await rows(run, "SELECT a FROM own") == [{"a": 1}]


async def test_the_spec_sets_the_isolation_level(run: Run) -> None:
    sql = "SELECT current_setting('transaction_isolation') AS v"

    assert await rows(run, sql, spec={"isolation": "Repeatable Read"}) == [{"v": "repeatable read"}]
    wrong = await run(sql, spec={"isolation": "strict"})
    assert wrong.error is not None
    assert wrong.error.message.startswith('spec.isolation "strict" is not an isolation level')


@pytest.mark.req("OUT-03")
async def test_a_serialization_failure_is_retryable(run: Run) -> None:
    await run("CREATE FUNCTION clash() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '40001'; END $$")

    outcome = await run("SELECT clash()")

    assert outcome.error is not None
    assert outcome.error.retryable
    assert outcome.helpers["pg"]["code"] == "40001"


@pytest.mark.req("TOOL-05")
async def test_a_timed_out_statement_is_stopped_on_the_server(run: Run, pg_auth: dict[str, Any]) -> None:  # noqa: F811
    outcome = await run("SELECT pg_sleep(60) /* the slow one */", spec={"timeout": 0.3})

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("timeout", True)
    left = (
        "SELECT count(*) AS n FROM pg_stat_activity "
        "WHERE query LIKE '%the slow%one%' AND state = 'active' AND pid <> pg_backend_pid()"
    )
    assert await rows(run, left) == [{"n": 0}]


async def test_the_server_enforces_the_timeout_of_the_task_too(run: Run) -> None:
    """A worker that was killed cannot cancel anything."""
    sql = "SELECT current_setting('statement_timeout') AS v"

    assert await rows(run, sql, spec={"timeout": "30s"}) == [{"v": "32s"}]
    assert await rows(run, sql, spec={"timeout": 30, "transaction": False}) == [{"v": "32s"}]
    assert await rows(run, sql, spec={"timeout": {"total": None}}) == [{"v": "0"}]


async def test_a_connection_is_reset_for_the_next_task(run: Run) -> None:
    await run("SET search_path = nowhere; SET TimeZone = 'Asia/Tokyo'", spec={"transaction": False})

    assert await rows(run, "SELECT current_setting('search_path') <> 'nowhere' AS v") == [{"v": True}]


@pytest.mark.req("TOOL-05")
async def test_too_many_rows_are_an_error_before_all_are_loaded(run: Run) -> None:
    by_rows = await run("SELECT generate_series(1, 1000000000)", spec={"max_rows": 1000})
    by_bytes = await run("SELECT repeat('x', 1000000) FROM generate_series(1, 1000)")

    for outcome in (by_rows, by_bytes):
        assert outcome.error is not None
        assert outcome.error.kind == "result.too_large"


@pytest.mark.req("TOOL-05")
async def test_exactly_once_returns_the_result_of_the_first_run(run: Run) -> None:
    await run("CREATE TABLE fx (id serial, a int)")
    sql, spec = "INSERT INTO fx (a) VALUES ({{ n }}) RETURNING id", {"exactly_once": True}

    first = await run(sql, {"n": 1}, spec=spec, marker="e/r/t/0")
    again = await run(sql, {"n": 1}, spec=spec, marker="e/r/t/0")
    other = await run(sql, {"n": 1}, spec=spec, marker="e/r/t/1")

    assert first.result["data"] == again.result["data"] == [{"id": 1}]
    assert other.result["data"] == [{"id": 2}]
    assert await rows(run, "SELECT count(*) AS n FROM fx") == [{"n": 2}]


async def test_a_failed_run_leaves_no_marker(run: Run) -> None:
    await run("CREATE TABLE fy (a int)")
    spec = {"exactly_once": True}

    await run("INSERT INTO fy VALUES (1); SELECT 1 / 0", spec=spec, marker="f/r/t/0")
    outcome = await run("INSERT INTO fy VALUES (2)", spec=spec, marker="f/r/t/0")

    assert outcome.error is None
    assert await rows(run, "SELECT a FROM fy") == [{"a": 2}]


async def test_two_workers_with_the_same_key_have_one_effect(run: Run) -> None:
    await run("CREATE TABLE fz (a int)")
    spec = {"exactly_once": True}

    outcomes = await asyncio.gather(
        *(run("INSERT INTO fz VALUES (1); SELECT pg_sleep(0.1)", spec=spec, marker="g/r/t/0") for _ in range(4))
    )

    assert [outcome.error for outcome in outcomes] == [None] * 4
    assert await rows(run, "SELECT count(*) AS n FROM fz") == [{"n": 1}]


async def test_exactly_once_without_a_transaction_is_refused(run: Run) -> None:
    outcome = await run("SELECT 1", spec={"exactly_once": True, "transaction": False})

    assert outcome.error is not None
    assert outcome.error.kind == "sql.input"


@pytest.mark.req("TOOL-05")
async def test_a_script_is_sql_from_a_file_and_not_a_template(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_text("SELECT '{{ x }}' AS v, :n AS n;\n-- done\n")

    outcome = await run(script={"uri": str(script)}, params={"n": "one"}, folders=(str(tmp_path),))

    assert outcome.result["data"] == [{"v": "{{ x }}", "n": "one"}]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, 'there is nothing to run: write "command", or "table" with "args"'),
        ({"command": "-- nothing\n"}, "the SQL holds no statement"),
        ({"command": "SELECT 1", "query": "SELECT 1"}, '"command" and "query" are both SQL to run: keep one of them'),
        ({"table": "t"}, '"table" needs "args": a row as a mapping of column to value, or a list of rows'),
        (
            {"table": "t", "args": {"a": 1}, "mode": "upsert"},
            'mode "upsert" needs "key": the columns that identify a row',
        ),
        ({"command": "SELECT 'a"}, "the SQL holds a quote or comment that is never closed: 'a"),
        (
            {"command": "SELECT 1", "auth": {"host": "db", "port": "x"}},
            "the credential has a field that is not what it should be",
        ),
    ],
)
async def test_invalid_postgres_inputs_are_reported(run: Run, inputs: dict[str, Any], message: str) -> None:
    outcome = await run(**inputs)

    assert outcome.error is not None
    assert outcome.error.message == message
