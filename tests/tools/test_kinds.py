"""The table of tool kinds: complete, well formed, cheap, and open to plug-ins."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import jsonschema
import pytest

from noetl.net.kinds import COMMON_SPEC, Input, ToolKind
from noetl.tools.kinds import GROUP, KINDS, load_kinds

BUILT_IN = [
    *("http", "postgres", "duckdb", "python", "noop", "log", "secrets", "playbook", "workbook"),
    *("quantum", "artifact", "storage", "gcs", "nats", "transfer", "shell", "script"),
    *("sql", "snowflake", "redis", "mqtt", "amqp", "kafka", "email", "slack", "teams", "ssh", "sftp", "llm", "mcp"),
    *("convert", "archive", "pgp", "container", "dbt", "dlt", "dask", "ray", "ducklake", "iceberg", "delta"),
]


@pytest.mark.req("TOOL-01")
def test_the_table_lists_every_built_in_kind() -> None:
    assert set(KINDS) == set(BUILT_IN)
    assert [name for name, kind in KINDS.items() if kind.plugin is not None] == []


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_every_declaration_is_complete(kind: ToolKind) -> None:
    spellings = [spelling for one in kind.inputs for spelling in (one.name, *one.aliases)]

    assert kind.doc
    assert all(one.doc for one in (*kind.inputs, *kind.spec))
    assert len(set(spellings)) == len(spellings), "one spelling names two inputs"
    assert {name for group in kind.one_of for name in group} <= {one.name for one in kind.inputs}
    assert not {one.name for one in kind.spec} & {one.name for one in COMMON_SPEC}
    for one in (*kind.inputs, *kind.spec):
        jsonschema.Draft202012Validator.check_schema(one.schema)


@pytest.mark.parametrize(
    ("kind", "spelling", "name"),
    [
        ("http", "endpoint", "url"),
        ("http", "payload", "json"),
        ("postgres", "commands", "command"),
        ("postgres", "query", "query"),
        ("postgres", "credential", "auth"),
        ("duckdb", "credential", "auth"),
        ("playbook", "payload", "args"),
    ],
)
def test_common_aliases_are_accepted(kind: str, spelling: str, name: str) -> None:
    """design.md §5: people bring playbooks written so."""
    found = KINDS[kind].input(spelling)

    assert found is not None
    assert found.name == name


def test_code_is_taken_verbatim_and_sql_is_marked() -> None:
    """A template inside python's code would rewrite the program; one inside SQL is bound (TOOL-07, O-23)."""
    assert [one.name for one in KINDS["python"].inputs if one.verbatim] == ["code"]
    assert [one.name for one in KINDS["postgres"].inputs if one.sql] == ["command", "query"]
    assert not any(one.verbatim for one in KINDS["shell"].inputs)


def test_default_timeouts_are_those_of_the_specification() -> None:
    """O-33: 300 s, 30 s for http, none for a nested playbook."""
    assert KINDS["python"].defaults["timeout"] == 300
    assert KINDS["http"].defaults["timeout"] == 30
    assert "timeout" not in KINDS["playbook"].defaults


def test_only_wrapped_results_are_unwrapped() -> None:
    """O-22: the payload is the data member for http, SQL and playbook results, the value itself otherwise."""
    assert {name for name, kind in KINDS.items() if kind.unwraps} == {
        "http",
        "postgres",
        "duckdb",
        "snowflake",
        "sql",
        "ducklake",
        "iceberg",
        "delta",
        "playbook",
    }


class _Plugin:
    kind = ToolKind(name="audit_logger", inputs=(Input(name="level", required=True),))


class _Bare:
    pass


def _entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    entries: list[EntryPoint] = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    return entries


@pytest.mark.req("TOOL-01", "VAL-04")
def test_a_plug_in_kind_is_listed_next_to_the_built_in_ones(installed: list[EntryPoint]) -> None:
    installed += [_entry("audit_logger", f"{__name__}:_Plugin"), _entry("bare", f"{__name__}:_Bare")]

    kinds = load_kinds()

    assert kinds["audit_logger"] is _Plugin.kind
    assert kinds["bare"].open_inputs
    assert {"http", "audit_logger", "bare"} <= set(kinds)
    assert "nobody" not in kinds


def test_a_plug_in_never_replaces_a_built_in_kind(installed: list[EntryPoint]) -> None:
    installed += [_entry("http", f"{__name__}:_Bare")]

    kinds = load_kinds()

    assert kinds["http"] is KINDS["http"]
    assert dict(kinds)["http"] is KINDS["http"]


def test_a_plug_in_that_fails_to_import_is_named_and_affects_nothing_else(installed: list[EntryPoint]) -> None:
    installed.append(_entry("broken", "no_such_module_anywhere:tool"))

    kind = load_kinds()["broken"]

    assert kind.plugin is not None
    assert "no_such_module_anywhere" in kind.plugin


def test_importing_the_table_imports_no_driver_and_searches_no_packages() -> None:
    code = (
        "import sys, noetl.tools.kinds as k; k.load_kinds()['http'];"
        "print([m for m in ('yaml', 'jinja2', 'httpx', 'psycopg', 'duckdb', 'asyncio') if m in sys.modules])"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "[]"


def test_the_duckdb_child_process_imports_neither_templates_nor_an_event_loop() -> None:
    """Each execution that uses DuckDB starts one: it took half as long again to start as DuckDB needs."""
    code = "import sys, noetl.tools.duckdb.child; print([m for m in ('jinja2', 'asyncio') if m in sys.modules])"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "[]"
