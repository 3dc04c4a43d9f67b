"""`noetl db`: migrating, checking and rebuilding a store, in a file and in PostgreSQL alike."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.operations.embedded import run
from noetl.store.postgres.database import address_of
from tests import forked
from tests.cli.running import call, process
from tests.cli.waiting_run import WaitingRun
from tests.contracts.stores import fresh_url
from tests.engine_script import playbook
from tests.servers.postgres import server

SMALL = """
workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}
  - {step: end, tool: {kind: noop}}
"""

UNRESOLVED = """
workflow: [{step: start, tool: {kind: http, url: "https://shop.example/", auth: nobody}}]
"""

STRAY_WAIT = """INSERT INTO wait (wait_id, execution_id, step_run_id, kind, name, correlation, opened_at)
                VALUES ('w1', 'gone', 'r', 'message', 'n', '{}', 1)"""
STRAY_ORDER = """INSERT INTO orders (order_id, execution_id, step_run_id, state, pool, priority, lease_epoch)
                 VALUES ('o1', 'gone', 'r', 'ready', 'default', 0, 0)"""
STRAY_TASK = "INSERT INTO task (task_id, execution_id, state, created_at, body) VALUES ('t1', 'gone', 'open', 1, '{}')"

LONG = """
workflow: [{step: start, tool: {kind: python, code: "import time; time.sleep(600)"}}]
"""

Spoil = Callable[[str], None]

# The server that tests share may lose what it likes in a crash, and `db check` says so.
UNSAFE = [
    f"warning: {setting} is off: what was committed may be lost in a crash" for setting in ("fsync", "full_page_writes")
]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store.db") if request.param == "sqlite" else fresh_url()


@pytest.fixture
def spoil(db: str) -> Spoil:
    """Run a statement behind the program's back."""

    def spoiled(statement: str) -> None:
        if db.startswith("postgresql"):
            server().ask(f"SET search_path = {address_of(db).schema}; {statement}", "stores")
        else:
            connection = sqlite3.connect(db)
            connection.execute(statement)
            connection.commit()
            connection.close()

    return spoiled


def looked(db: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, err = call("db", "check", "--db", db, "-o", "json", *arguments)
    assert not err
    return code, json.loads(out)


@pytest.mark.req("CLI-02")
def test_migrate_creates_a_store_and_upgrades_it_once(db: str) -> None:
    code, out, _ = call("db", "migrate", "--db", db)
    assert code == 0
    assert "ran 0001_" in out

    assert call("db", "migrate", "--db", db)[1].startswith("up to date: ")
    code, out, _ = call("db", "migrate", "--db", db, "-o", "json")
    told = json.loads(out)
    assert (code, told["ran"]) == (0, [])
    assert told["applied"][0].startswith("0001_")


@pytest.mark.req("EVT-01")
def test_an_intact_store_is_reported_as_whole(db: str) -> None:
    for _ in range(3):
        assert run(playbook(SMALL), db=db).ok

    code, out, _ = call("db", "check", "--db", db)
    assert code == 0
    assert [line for line in out.splitlines()[1:] if line not in UNSAFE] == [
        "whole: 3 executions compared with the log"
    ]
    code, told = looked(db, "--sample", "2")
    assert (code, told["ok"], told["pending"], told["compared"], told["flaws"]) == (0, True, [], 2, [])


@pytest.mark.req("EVT-01")
def test_a_run_refused_for_a_missing_credential_is_intact(db: str) -> None:
    refused = run(playbook(UNRESOLVED), db=db)
    assert not refused.ok

    assert looked(db)[1]["flaws"] == []
    call("db", "rebuild", "--db", db)
    assert looked(db)[1]["flaws"] == []


@pytest.mark.req("EVT-01", "EVT-02")
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE execution SET last_seq = last_seq + 1", "its row is at event"),
        ("UPDATE execution SET status = 'running'", "its execution in the store"),
        ("DELETE FROM execution", "it has events and no row"),
        ("UPDATE execution SET net_hash = 'gone'", "its net gone is not there"),
        (STRAY_WAIT, "wait w1 is open"),
        (STRAY_ORDER, "order o1 is open"),
        (STRAY_TASK, "task t1 is open"),
    ],
)
def test_db_check_finds_damaged_rows_and_rebuilds_them(db: str, spoil: Spoil, statement: str, what: str) -> None:
    run(playbook(SMALL), db=db)
    spoil(statement)
    code, told = looked(db)
    assert code == 1
    assert any(what in flaw["what"] for flaw in told["flaws"])
    code, out, _ = call("db", "check", "--db", db)
    assert code == 1
    assert what in out
    assert "noetl db rebuild" in out

    assert call("db", "rebuild", "--db", db)[:2] == (0, "rebuilt the rows of 1 execution\n")

    assert looked(db)[0] == 0


def test_a_database_that_may_lose_commits_gets_a_warning() -> None:
    db = fresh_url()
    call("db", "migrate", "--db", db)
    unsafe = db + "&synchronous_commit=off"

    assert "warning: synchronous_commit is off" in call("db", "check", "--db", unsafe)[1]
    told = "\n".join(looked(db)[1]["warnings"])
    assert "fsync is off" in told
    assert "synchronous_commit" not in told


@pytest.mark.req("SRV-07", "SRV-11")
def test_a_run_on_a_database_is_controlled_from_another_terminal(tmp_path: Path) -> None:
    db, file = fresh_url(), tmp_path / "long.yaml"
    file.write_text(playbook(LONG))
    running = forked.Popen(
        [*forked.NOETL, "run", str(file), "--db", db, "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while "task.started" not in call("events", "last", "--db", db)[1]:
            assert time.monotonic() < deadline
            time.sleep(0.05)

        assert call("pause", "last", "--db", db)[1].startswith("paused execution ")
        assert call("resume", "last", "--db", db)[1].startswith("resumed execution ")
        assert call("cancel", "last", "--db", db)[1].startswith("cancelled execution ")
        assert running.wait(100) == 5
    finally:
        running.kill()
        running.wait()
    assert looked(db)[0] == 0


def test_db_check_reports_pending_migrations_without_applying_them(db: str, spoil: Spoil) -> None:
    call("db", "migrate", "--db", db)
    newest = looked(db)[1]["applied"][-1]
    spoil("DELETE FROM migration WHERE number = (SELECT max(number) FROM migration)")

    code, out, _ = call("db", "check", "--db", db)

    assert code == 1
    assert out.endswith(f"1 pending\npending: {newest}; run them with: noetl db migrate\n")
    assert looked(db)[1]["pending"] == [newest]


def test_a_missing_store_is_refused(tmp_path: Path) -> None:
    for verb in ("check", "rebuild"):
        code, _, err = call("db", verb, "--db", str(tmp_path / "none.db"))
        assert code == 4
        assert "there is no store" in err
    code, _, err = call("db", "migrate", "--db", "postgresql://ann:secret@127.0.0.1:1/none")
    assert code == 4
    assert "cannot be reached" in err
    assert "secret" not in err
    for verb in ("migrate", "check", "rebuild"):
        assert call("db", verb, "--db", ":memory:")[0] == 4


@pytest.mark.req("CLI-02")
def test_user_commands_work_on_a_database(tmp_path: Path) -> None:
    """Run, list, look and read the result: as on a file."""
    db, file = fresh_url(), tmp_path / "small.yaml"
    file.write_text(playbook(SMALL))

    assert call("run", str(file), "--db", db, "--quiet")[0] == 0
    code, out, _ = call("executions", "--db", db, "-o", "id")
    execution_id = out.strip()

    assert code == 0
    assert call("status", execution_id, "--db", db)[0] == 0
    assert "workflow.finished" in call("events", "last", "--db", db)[1]
    assert call("result", "last", "--db", db)[0] == 0
    assert call("ctx", "last", "--db", db)[0] == 0
    assert call("register", str(file), "--db", db)[1].endswith("version 1\n")
    assert call("run", "tests/test", "--db", db, "--quiet")[0] == 0, "found in the catalogue by its path"
    code, _, err = call("cancel", "last", "--db", db)
    assert (code, "has ended" in err) == (4, True)


def test_help_imports_no_database_driver() -> None:
    code = "import sys; from noetl.cli.main import run; run(['db', '--help']); print('asyncpg' in sys.modules)"
    done = subprocess.run([process("--version").args[0], "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.endswith("False\n")


def test_retention_previews_deletions_and_deletes_on_request(tmp_path: Path) -> None:
    db, file = str(tmp_path / "store.db"), tmp_path / "short.yaml"
    file.write_text(
        "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: short, path: tests/short, retention: 0s}\n"
        "workflow: [{step: start, tool: {kind: noop}}]\n"
    )
    assert call("run", str(file), "--db", db)[0] == 0

    code, out, _ = call("db", "retention", "--db", db)
    assert code == 0
    assert "tests/short: 1 execution older than 0 days\nwould remove 1 execution and 0 stored results\n" in out
    assert len(json.loads(call("executions", "--db", db, "-o", "json")[1])) == 1

    told = json.loads(call("db", "retention", "--run", "--db", db, "-o", "json")[1])
    assert (told["removed"], told["executions"]) == (True, 1)
    assert json.loads(call("executions", "--db", db, "-o", "json")[1]) == []
    assert call("db", "check", "--db", db)[0] == 0
    assert call("db", "retention", "--run", "--dry-run", "--db", db)[0] == 2


NESTED = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: outer, path: tests/outer }
workflow: [{ step: start, tool: { kind: playbook, path: tests/inner } }]
"""
INNER = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: inner, path: tests/inner }
workflow: [{ step: start, tool: { kind: noop } }]
"""
WAITING = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: waiting, path: tests/waiting }
workflow:
  - step: start
    tool: { kind: playbook, path: tests/inner }
    next: { arcs: [{ step: rest }] }
  - step: rest
    timer: { duration: 30d }
"""


def ids_of(db: str) -> dict[str, str]:
    return {row["path"]: row["execution_id"] for row in json.loads(call("executions", "--db", db, "-o", "json")[1])}


def test_an_execution_is_deleted_before_its_time_with_those_it_has_started(tmp_path: Path) -> None:
    db = str(tmp_path / "store.db")
    for name, text in {"inner": INNER, "outer": NESTED}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    assert call("register", str(tmp_path / "inner.yaml"), "--db", db)[0] == 0
    assert call("run", "-q", str(tmp_path / "outer.yaml"), "--db", db)[0] == 0
    ids = ids_of(db)

    planned = call("db", "delete", ids["tests/outer"], "--db", db)
    kept = ids_of(db)
    deleted = json.loads(call("db", "delete", ids["tests/outer"], "--run", "--db", db, "-o", "json")[1])

    assert planned[:2] == (0, f"{ids['tests/outer']}\n{ids['tests/inner']}\nwould delete 2 executions\n")
    assert kept == ids
    assert deleted == {"deleted": True, "executions": [ids["tests/outer"], ids["tests/inner"]]}
    assert ids_of(db) == {}
    rows = json.loads(call("audit", "list", "--db", db, "-o", "json")[1])
    audited = [(row["action"], row["object"]) for row in rows if row["action"] == "execution delete"]
    assert sorted(audited) == sorted(("execution delete", one) for one in ids.values())
    assert call("db", "check", "--db", db)[0] == 0


def test_only_executions_that_are_there_and_over_are_deleted(tmp_path: Path) -> None:
    db, file = str(tmp_path / "s.db"), tmp_path / "waiting.yaml"
    file.write_text(WAITING)
    (tmp_path / "inner.yaml").write_text(INNER)
    assert call("register", str(tmp_path / "inner.yaml"), "--db", db)[0] == 0
    with WaitingRun(file, tmp_path, "waits") as run:
        run.interrupt()
    ids = ids_of(db)

    still_open = call("db", "delete", ids["tests/waiting"], "--run", "--db", db)
    child_of_open = call("db", "delete", ids["tests/inner"], "--run", "--db", db)
    unknown = call("db", "delete", "nothing", "--run", "--db", db)

    assert still_open[0] == child_of_open[0] == unknown[0] == 4
    assert f"execution {ids['tests/waiting']} is not over: cancel it, or wait for its end" in still_open[2]
    assert f"was started by {ids['tests/waiting']}, which is not over" in child_of_open[2]
    assert 'there is no execution "nothing" in this store; write its whole id' in unknown[2]
    assert ids_of(db) == ids
    assert json.loads(call("audit", "list", "--db", db, "-o", "json")[1]) == []
