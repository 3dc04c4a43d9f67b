"""`dbt` on DuckDB: real runs of a real dbt, in an environment of its own."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.events.outcomes import Outcome
from noetl.tools.dbt.tool import DbtTool
from noetl.tools.interpreters import named_interpreter
from noetl.tools.registry import Registry, is_installed
from tests.servers.data_frameworks import frameworks_python
from tests.tools.sql_tasks import outcome_of

pytestmark = [pytest.mark.timeout(900)]
MODELS = {
    "orders": "{{ config(materialized='table') }} select * from range({{ var('n', 3) }}) t(id)",
    "totals": "select count(*) as n from {{ ref('orders') }}",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: shop\nversion: '1.0'\nprofile: shop\n")
    for name, text in MODELS.items():
        (folder / "models" / f"{name}.sql").write_text(text)
    return folder


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", f"dbt={frameworks_python()}")


def error(outcome: Outcome) -> Any:
    assert outcome.error is not None, outcome.result
    return outcome.error


async def built(project: Path, /, **inputs: Any) -> Outcome:
    more = {"data_folders": (str(project.parent),), **inputs.pop("more", {})}
    auth = {"adapter": "duckdb", "path": str(project / "shop.duckdb")}
    return await outcome_of(DbtTool(), {"project": "shop", "auth": auth, **inputs}, **more)


@pytest.mark.usefixtures("real")
async def test_a_project_is_built_and_its_models_are_told_with_their_lineage(project: Path) -> None:
    printed = bytearray()

    done = await built(project, vars={"n": 5}, more={"printed": lambda data, stream: printed.extend(data)})

    assert done.error is None, done.error
    orders, totals = done.result["nodes"]
    assert (orders["name"], orders["type"], orders["status"]) == ("orders", "model", "success")
    assert orders["children"] == ["model.shop.totals"]
    assert totals["parents"] == ["model.shop.orders"]
    assert done.result["counts"] == {"success": 2}
    assert b"PASS=2" in printed
    assert not (project / "target").exists(), "the folder of the project stays as it was"


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_a_node_that_fails_is_the_error_in_its_own_words(project: Path) -> None:
    (project / "models/broken.sql").write_text("select nothing_like_this from {{ ref('orders') }}")

    failed = error(await built(project, select=["broken", "orders"], op="run"))

    assert failed.kind == "dbt.failed"
    assert "model.shop.broken" in failed.message
    assert "nothing_like_this" in failed.message
    assert {node["name"]: node["status"] for node in failed.details["nodes"]} == {
        "orders": "success",
        "broken": "error",
    }


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_a_project_that_cannot_be_read_and_a_profile_that_is_none_are_errors(project: Path) -> None:
    unknown = error(await built(project, auth={"adapter": "nothing_like_this", "path": "x"}))
    (project / "models/broken.sql").write_text("{{ nothing_like_this( }}")

    unread = error(await built(project))

    assert unread.kind == "dbt.error"
    assert "broken" in unread.message
    assert unknown.kind == "dbt.error"
    assert "nothing_like_this" in unknown.message


# What follows needs no dbt: another program stands where its interpreter would be.


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, program: str) -> None:
    """An interpreter that ignores what it is to run, and runs `program`; `answer` is the file for its answer."""
    file = folder / "interpreter"
    file.write_text(
        f"#!{sys.executable}\nimport json, sys, time\nanswer = sys.argv[3]\nrequest = json.load(sys.stdin)\n{program}\n"
    )
    file.chmod(0o755)
    monkeypatch.setenv("NOETL_INTERPRETERS", f"dbt={file}")


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("", "dbt.error"),
        ("sys.exit(3)", "dbt.error"),
        ("open(answer, 'w').write('no json')", "dbt.error"),
        ("open(answer, 'w').write('[1]')", "dbt.error"),
        ("open(answer, 'w').write(json.dumps({'nodes': 3}))", "dbt.error"),
        (
            "open(answer, 'w').write(json.dumps({'error': {'message': '\\x1b[31m', 'kind': 'tool.unknown'}}))",
            "dbt.error",
        ),
        ("import os; os.symlink('/etc/passwd', answer)", "dbt.error"),
        ("f = open(answer, 'wb'); f.truncate(65 << 20)", "result.too_large"),
        ("print('x' * (5 << 20)); open(answer, 'w').write(json.dumps({'nodes': []}))", None),
    ],
)
async def test_what_a_spoiled_interpreter_leaves_is_an_error(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, kind: str | None
) -> None:
    stand_in(monkeypatch, tmp_path, program)

    outcome = await built(project)

    assert (outcome.error.kind if outcome.error else None) == kind
    assert outcome.error is None or outcome.error.message.isprintable()


async def test_a_cancelled_task_ends_the_process(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path, f"open({str(tmp_path / 'begun')!r}, 'w').write('x'); print('on'); time.sleep(1000)")
    begun = asyncio.Event()
    more = {"printed": lambda data, stream: begun.set()}
    task = asyncio.ensure_future(built(project, more=more))
    await begun.wait()

    task.cancel()
    left = await asyncio.gather(task, return_exceptions=True)

    assert isinstance(left[0], asyncio.CancelledError)


@pytest.mark.req("KEY-06")
async def test_no_secret_is_told(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process tells all it was given, as a project with a mistake may."""
    stand_in(
        monkeypatch,
        tmp_path,
        "print(request); open(answer, 'w').write(json.dumps({'error': {'message': str(request)}}))",
    )
    for _ in range(50):
        secret = secrets.token_urlsafe(12)
        auth = {"adapter": "postgres", "host": "db", "password": secret}

        outcome = await built(project, auth=auth, more={"masked": lambda text, word=secret: text.replace(word, "***")})

        assert "***" in error(outcome).message
        assert secret.encode() not in msgspec.json.encode(outcome)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"op": "destroy"}, "is not one of build, run"),
        ({"project": "/etc"}, "outside the folders"),
        ({"project": "."}, "has no dbt_project.yml"),
        ({"select": {"a": 1}}, "select is a text"),
        ({"vars": [1]}, "vars must be a mapping"),
        ({"auth": {"path": "x"}}, 'needs "adapter"'),
        ({"env": {"A B": 1}}, "is no name of an environment variable"),
    ],
)
async def test_inputs_that_are_wrong_are_told(project: Path, inputs: dict[str, Any], said: str) -> None:
    failed = error(await built(project, **inputs))

    assert failed.kind == "dbt.input"
    assert said in failed.message


def test_the_settings_name_the_interpreter_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", "dbt=/opt/dbt/bin/python, dlt=/opt/dlt/bin/python")

    assert named_interpreter("dbt") == "/opt/dbt/bin/python"
    assert named_interpreter("ray") is None
    assert is_installed("dbt")
    assert "dbt" in Registry().kinds()


def test_a_kind_without_its_extra_says_both_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOETL_INTERPRETERS", raising=False)
    if is_installed("dbt"):
        pytest.skip("dbt is installed beside NoETL")

    said = Registry().refusal("dbt") or ""

    assert "noetl-engine[dbt]" in said
    assert "interpreters" in said
    assert json.dumps(said)
