"""The `duckdb` tool: the same shape as `postgres`, in a child process that can reach nothing it was not given."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
import pytest_asyncio

from noetl.base.errors import ToolError
from noetl.events.outcomes import Outcome, Status
from noetl.templates.sql.binding import bind
from noetl.tools import child_process
from noetl.tools.duckdb import sandboxed_connection
from noetl.tools.duckdb.attachments import Attachment
from noetl.tools.duckdb.tool import DuckdbTool
from tests.servers.postgres import server
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import outcome_of

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one child process for all tests
Run = Callable[..., Awaitable[Outcome]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool() -> AsyncIterator[DuckdbTool]:
    made = DuckdbTool()
    yield made
    await made.close()


@pytest.fixture
def run(tool: DuckdbTool) -> Run:
    """Run authored SQL in a scope, as a worker would."""

    async def running(sql: Any = None, scope: dict[str, Any] | None = None, **more: Any) -> Outcome:
        spec, folders = more.pop("spec", None), more.pop("folders", ())
        if sql is not None:
            more["command"] = bind(sql, scope or {})
        return await outcome_of(tool, more, spec, data_folders=tuple(map(str, folders)))

    return running


async def rows(run: Run, sql: str, scope: dict[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
    outcome = await run(sql, scope, **more)
    assert outcome.error is None, outcome.error
    found: list[dict[str, Any]] = outcome.result["data"]
    return found


@pytest.mark.req("TOOL-06", "OUT-01")
async def test_create_insert_and_select_in_one_task(run: Run) -> None:
    outcome = await run("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); SELECT a FROM t ORDER BY a")

    assert outcome.status is Status.SUCCESS
    assert outcome.result["data"] == [{"a": 1}, {"a": 2}]
    assert (outcome.result["row_count"], outcome.result["columns"]) == (2, ["a"])
    assert outcome.result["command_0"] == {"rows": [], "columns": [], "row_count": 0}
    assert outcome.result["command_1"] == {"rows": [], "columns": [], "row_count": 2}
    assert outcome.wrapped
    assert outcome.meta.readable().keys() >= {
        *("attempt", "duration_ms", "started_at", "finished_at", "trace_id", "task_run_id"),
    }


@pytest.mark.req("TOOL-06")
async def test_a_database_file_is_persistent_and_memory_is_not(run: Run, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"folders": [tmp_path], "database": "sales.duckdb"}

    await run("CREATE TABLE t AS SELECT 42 AS a", **kept)

    assert await rows(run, "SELECT a FROM t", **kept) == [{"a": 42}]
    assert (tmp_path / "sales.duckdb").exists()
    gone = await run("SELECT a FROM t")
    assert gone.error is not None
    assert gone.error.kind == "duckdb.error"


@pytest.mark.req("TOOL-06", "RES-05")
async def test_table_and_args_insert_rows_and_return_a_reference(run: Run, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"folders": [tmp_path], "database": "d.duckdb"}
    await run("CREATE TABLE t (id int PRIMARY KEY, j JSON, n int DEFAULT 7)", **kept)

    outcome = await run(table="t", args=[{"id": 1, "j": {"x": [1]}}, {"id": 2, "n": 8}], **kept)
    await run(table="t", args={"id": 2, "n": 9}, mode="upsert", key="id", **kept)

    assert outcome.result["store"] == "duckdb.table"
    assert (outcome.result["key"], outcome.result["row_count"]) == ("t", 2)
    assert await rows(run, "SELECT * FROM t ORDER BY id", **kept) == [
        {"id": 1, "j": {"x": [1]}, "n": 7},
        {"id": 2, "j": None, "n": 9},
    ]


NASTY = "O'Reilly\"; DROP TABLE people; -- \\' $$ /* \u2028 \U0001f600"


@pytest.mark.req("TOOL-06")
@pytest.mark.parametrize(
    ("sql", "scope", "expected"),
    [
        ("SELECT {{ n }} AS v", {"n": 5}, 5),
        ("SELECT {{ n }} AS v", {"n": True}, True),
        ("SELECT '{{ s }}' AS v", {"s": NASTY}, NASTY),
        ("SELECT 'it''s {{ s }}!' AS v", {"s": NASTY}, f"it's {NASTY}!"),
        ("SELECT upper({{ s }}) AS v", {"s": "a'b"}, "A'B"),
        ("SELECT 1 -{{ n }} AS v", {"n": -1}, 2),
        ("SELECT DATE '{{ d }}' + 1 AS v", {"d": "2024-01-31"}, "2024-02-01"),
        ("SELECT INTERVAL '{{ n }} days' AS v", {"n": 3}, "P3D"),
        ("SELECT count(*) AS v FROM range(10) t(i) WHERE i IN ({{ ids }})", {"ids": [2, 3, 20]}, 2),
        ("SELECT count(*) AS v FROM range(10) t(i) WHERE i NOT IN ({{ ids }})", {"ids": []}, 10),
        ("SELECT count(*) AS v FROM range({{ n }})", {"n": 4}, 4),
        ("SELECT [1, {{ n }}] AS v", {"n": 2}, [1, 2]),
        ("SELECT {'a': {{ n }} } AS v", {"n": 2}, {"a": 2}),
        ("SELECT {{ c }} AS v FROM (SELECT 7 AS seven) q", {"c": "seven"}, 7),
        ("SELECT ? || ? AS v", {}, "ab"),
    ],
)
async def test_a_template_means_the_same_as_its_value_written_in_its_place(
    run: Run, sql: str, scope: dict[str, Any], expected: Any
) -> None:
    more = {"params": ["a", "b"]} if "?" in sql else {}

    assert [row["v"] for row in await rows(run, sql, scope, **more)] == [expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
        ("1.10::DECIMAL(10,2)", 1.1),
        ("TIMESTAMPTZ '2024-01-01 00:00:00+02'", "2023-12-31T22:00:00Z"),
        ("TIMESTAMP '2024-01-01 10:00:00'", "2024-01-01T10:00:00"),
        ("DATE 'infinity'", "infinity"),
        ("'abc'::BLOB", "YWJj"),
        ("'nan'::DOUBLE", "NaN"),
        ("MAP {'a': 1}", {"a": 1}),
        ("'{\"a\": [1]}'::JSON", {"a": [1]}),
        ("INTERVAL 90 SECOND", "PT90S"),
        ("NULL", None),
    ],
)
async def test_values_are_returned_as_lossless_json(run: Run, expression: str, expected: Any) -> None:
    (row,) = await rows(run, f"SELECT {expression} AS v")

    assert row["v"] == expected


async def test_all_statements_of_a_task_are_one_transaction(run: Run, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"folders": [tmp_path], "database": "d.duckdb"}
    await run("CREATE TABLE t (a int)", **kept)

    await run("INSERT INTO t VALUES (1); SELECT error('no')", **kept)
    await run("INSERT INTO t VALUES (2); SELECT error('no')", spec={"transaction": False}, **kept)
    await run("BEGIN; INSERT INTO t VALUES (3); COMMIT; SELECT error('no')", **kept)

    assert await rows(run, "SELECT a FROM t ORDER BY a", **kept) == [{"a": 2}, {"a": 3}]


PROBES = [
    "SELECT * FROM read_csv('{outside}/secret.csv')",
    "SELECT * FROM '{outside}/secret.csv'",
    "SELECT * FROM read_csv('{inside}/../secret.csv')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM read_json('http://127.0.0.1:1/x')",
    "SELECT * FROM read_csv('/dev/stdin')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT getenv('HOME')",
    "COPY (SELECT 1) TO '{outside}/made.csv'",
    "COPY (SELECT 1) TO '/dev/stdout'",
    "EXPORT DATABASE '{outside}/made'",
    "IMPORT DATABASE '{outside}/made'",
    "ATTACH '{outside}/made.duckdb' AS x",
    "ATTACH 'host=127.0.0.1' AS x (TYPE postgres)",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{outside}/made.duckdb_extension'",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "SET lock_configuration = false",
    "SET allowed_directories = ['/']",
    "SET allowed_paths = ['/etc/passwd']",
    "SET memory_limit = '100GB'",
    "SET threads = 64",
    "SET temp_directory = '{outside}'",
    "SET extension_directory = '{outside}'",
    "SET secret_directory = '{outside}'",
    "SET log_query_path = '{outside}/made.log'",
    "SET autoinstall_known_extensions = true",
    "SET python_enable_replacements = true",
    "PRAGMA profile_output = '{outside}/made.json'",
    "CREATE PERSISTENT SECRET s (TYPE http)",
    "SELECT * FROM call",
]


@pytest.mark.req("TOOL-06")
@pytest.mark.parametrize("folders", ["none", "one"])
async def test_nothing_outside_the_data_folders_is_reachable(
    tool: DuckdbTool, run: Run, tmp_path: Path, folders: str
) -> None:
    """reliability.md §2.5, F20: by default DuckDB reads and writes any file its process can."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.csv").write_text("x\n1\n")
    before = sorted(os.listdir(tmp_path))
    reached = []

    for probe in PROBES:
        sql = probe.format(inside=inside, outside=tmp_path)
        outcome = await run(sql, folders=[inside] if folders == "one" else [])
        if outcome.error is None or outcome.error.kind != "duckdb.error":
            reached.append((sql, outcome))

    assert reached == []
    assert sorted(os.listdir(tmp_path)) == before


async def test_files_of_a_data_folder_can_be_read_and_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("x\n1\n2\n")
    scope = {"folder": str(tmp_path)}

    await run(
        "COPY (SELECT x * 2 AS y FROM '{{ folder }}/in.csv') TO '{{ folder }}/out.csv'", scope, folders=[tmp_path]
    )

    assert (tmp_path / "out.csv").read_text().split() == ["y", "2", "4"]


@pytest.mark.parametrize("database", ["../d.duckdb", "/etc/d.duckdb", "link/d.duckdb"])
async def test_a_database_file_outside_of_the_data_folders_is_refused(run: Run, tmp_path: Path, database: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)

    outcome = await run("SELECT 1", database=database, folders=[inside])

    assert outcome.error is not None
    assert f'"{database}" is outside the folders that are open here: {inside}. ' in outcome.error.message
    assert "NOETL_DATA_FOLDERS" in outcome.error.message


async def test_a_database_file_needs_a_data_folder(run: Run) -> None:
    outcome = await run("SELECT 1", database="d.duckdb")

    assert outcome.error is not None
    assert outcome.error.message == (
        '"d.duckdb" cannot be opened: no data folder is open here; the operator of this worker opens one with '
        "data_folders in noetl.toml, or with NOETL_DATA_FOLDERS"
    )


@pytest.mark.req("TOOL-06")
async def test_a_query_that_times_out_is_killed_with_its_process(tool: DuckdbTool, run: Run) -> None:
    await run("SELECT 1")
    ((_, child),) = tool._children._idle
    pid = child._process.pid

    outcome = await run("SELECT count(*) FROM range(10000000000) a, range(1000) b", spec={"timeout": 0.3})

    assert outcome.error is not None
    assert outcome.error.kind == "timeout"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert await rows(run, "SELECT 1 AS n") == [{"n": 1}]


async def test_exceeding_memory_or_row_limits_is_an_error(run: Run) -> None:
    memory = await run(
        "CREATE TABLE big AS SELECT i, random() FROM range(50000000) t(i)", spec={"resources": {"memory": "32Mi"}}
    )
    many = await run("SELECT * FROM range(1000000000)", spec={"max_rows": 10})

    assert memory.error is not None
    assert memory.error.kind == "duckdb.error"
    assert many.error is not None
    assert many.error.kind == "result.too_large"


@pytest.mark.req("TOOL-06")
async def test_blocks_repeat_sql_and_bind_their_values(run: Run) -> None:
    evil = "x'; DROP TABLE t; --"
    sql = """
        {% set columns = ['id', 'name'] %}
        CREATE TABLE t (id int, name text);
        INSERT INTO t ({{ columns }}) VALUES
        {% for row in rows %} ({{ row.id }}, '{{ row.name }}'){{ "," if not loop.last }} {% endfor %};
        SELECT name FROM t WHERE 1 = 1
        {% if least %} AND id >= {{ least }} {% endif %}
        ORDER BY id
    """
    scope = {"rows": [{"id": 1, "name": "a"}, {"id": 2, "name": evil}], "least": 2}

    assert await rows(run, sql, scope) == [{"name": evil}]
    assert await rows(run, sql, {**scope, "least": None}) == [{"name": "a"}, {"name": evil}]


async def test_tasks_of_one_execution_run_concurrently(run: Run) -> None:
    found = await asyncio.gather(*(rows(run, "SELECT {{ n }} AS n", {"n": n}) for n in range(3)))

    assert found == [[{"n": 0}], [{"n": 1}], [{"n": 2}]]


@pytest.mark.req("TOOL-06")
async def test_concurrent_tasks_take_turns_on_one_database_file(run: Run, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"folders": [tmp_path], "database": "d.duckdb"}
    await run("CREATE TABLE t (n int)", **kept)

    done = await asyncio.gather(*(run("INSERT INTO t VALUES ({{ n }})", {"n": n}, **kept) for n in range(5)))

    assert [outcome.error for outcome in done] == [None] * 5
    assert await rows(run, "SELECT count(*) AS n FROM t", **kept) == [{"n": 5}]


@pytest.mark.req("TOOL-06")
async def test_a_database_file_locked_by_another_process_is_waited_for(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = "import noetl.tools.duckdb.sandboxed_connection as connecting; connecting.LOCK_WAIT_S = 60.0"
    begun = "importlib.import_module"  # once it is known where we are
    monkeypatch.setattr(child_process, "_PROGRAM", child_process._PROGRAM.replace(begun, f"{patient}; {begun}"))
    kept: dict[str, Any] = {"folders": [tmp_path], "database": "d.duckdb"}
    await run("CREATE TABLE t AS SELECT 42 AS a", **kept)
    holding = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    other = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", holding, str(tmp_path / "d.duckdb")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    assert await other.stdout.readline() == b"open\n"

    waiting = asyncio.ensure_future(rows(run, "SELECT a FROM t", **kept))
    await asyncio.wait({waiting}, timeout=0.2)
    assert not waiting.done()
    other.stdin.close()

    assert await waiting == [{"a": 42}]
    await other.communicate()  # to the end of its output as well


async def test_children_end_with_their_execution(tool: DuckdbTool, run: Run) -> None:
    await tool.close()  # with the children of other tests
    await run("SELECT 1")
    ((owner, child),) = tool._children._idle

    tool.release("another")
    assert tool._children._idle
    tool.release(owner)

    assert not tool._children._idle
    assert not child.usable or await _settled(lambda: not child.usable)


async def _settled(there: Callable[[], bool]) -> bool:
    async with asyncio.timeout(60):
        while not there():
            await asyncio.sleep(0.01)
    return True


@pytest.mark.req("TOOL-06")
async def test_attaching_postgres_without_its_extension_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxed_connection, "find_spec", lambda name: None)
    wanted = Attachment(kind="postgres", address="host=127.0.0.1 user=me")
    with duckdb.connect(config={"extension_directory": str(tmp_path)}) as connection, pytest.raises(ToolError) as told:
        sandboxed_connection.attach(connection, wanted, 2)

    assert str(told.value) == (
        'this DuckDB cannot load the postgres extension here: pip install "noetl-engine[duckdb-extensions]"'
    )


@pytest.mark.req("TOOL-06")
async def test_postgres_is_attached_for_reading_and_writing_and_stores_no_secret(run: Run) -> None:
    postgres = server()
    postgres.ask("DROP TABLE IF EXISTS attached; CREATE TABLE attached (id int, name text)")
    auth = {"host": postgres.socket, "user": "postgres", "database": "postgres"}

    await run("INSERT INTO pg.attached VALUES (1, 'one'), (2, 'two')", auth=auth)
    read = await run("SELECT name FROM pg.attached ORDER BY id", auth=auth)
    kept = await run("CREATE PERSISTENT SECRET s (TYPE postgres, PASSWORD 'sesame')", auth=auth)

    assert read.error is None, read.error
    assert [row["name"] for row in read.result["data"]] == ["one", "two"]
    assert kept.error is not None


@pytest.mark.req("TOOL-06")
async def test_sql_on_an_attached_postgres_connects_to_no_other_server(run: Run) -> None:
    """The extension asks nobody before it connects to an address that SQL names."""
    postgres = server()
    auth = {"host": postgres.socket, "user": "postgres", "database": "postgres"}
    reached = []

    with Proxy(f"{postgres.socket}/.s.PGSQL.5432") as line:
        there = f"host=127.0.0.1 port={line.port} user=postgres dbname=postgres"
        for sql in (
            f"SELECT * FROM postgres_scan('{there}', 'pg_catalog', 'pg_class')",
            f"CALL postgres_attach('{there}')",
            f"SELECT * FROM query('SELECT * FROM postgres' || '_scan(''{there}'', ''pg_catalog'', ''pg_class'')')",
            f"ATTACH '{there}' AS other (TYPE postgres)",
        ):
            outcome = await run(sql, auth=auth)
            reached += [] if outcome.error is not None else [sql]

        assert (reached, line.connections) == ([], 0)


async def test_large_tables_of_an_attached_postgres_are_read_by_several_threads(run: Run) -> None:
    postgres = server()
    postgres.ask("DROP TABLE IF EXISTS many; CREATE TABLE many AS SELECT g AS id FROM generate_series(1, 300000) g")
    auth = {"host": postgres.socket, "user": "postgres", "database": "postgres"}

    both = "SELECT count(*) AS n FROM pg.many a JOIN pg.many b USING (id)"

    assert await rows(run, both, auth=auth, spec={"threads": 4}) == [{"n": 300_000}]


async def test_exactly_once_is_refused_as_unsupported(run: Run) -> None:
    outcome = await run("SELECT 1", spec={"exactly_once": True})

    assert outcome.error is not None
    assert outcome.error.kind == "sql.input"
