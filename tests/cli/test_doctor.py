"""`noetl doctor`: what it finds, and what it says to do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from noetl.base.clock import SystemClock
from noetl.base.distribution import own_version
from noetl.cli.doctor import workers_finding
from noetl.operations.administration_shapes import WorkerInfo
from noetl.operations.credentials import record_key_id
from noetl.store.sqlite import database, store
from noetl.store.sqlite.history import SqliteHistory
from noetl.store.sqlite.store import SqliteStore
from tests.cli.running import FIXTURES, call


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(*arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    code, out, _ = call("doctor", "-o", "json", *arguments)
    return code, {one["what"]: one for one in json.loads(out)}


def test_doctor_reports_a_fresh_machine_as_healthy() -> None:
    code, told = found()

    assert code == 0
    assert told["store"]["state"] == "note"
    assert told["disk"]["state"] == "ok"


def test_doctor_opens_the_store_and_counts_its_migrations() -> None:
    call("run", str(FIXTURES / "F-000-A.yaml"), "--quiet")
    code, told = found()

    assert code == 0
    assert told["store"]["state"] == "ok"
    assert told["migrations"]["state"] == "ok"


def test_doctor_fails_if_the_store_needs_a_missing_master_key(home: Path) -> None:
    async def record() -> None:
        store = SqliteStore.open(home / "noetl.db")
        await record_key_id(store.key_values, SystemClock(), "4711abcd")
        await store.close()

    asyncio.run(record())
    code, told = found()

    assert code == 1
    assert told["master key"]["state"] == "bad"
    assert "4711abcd" in told["master key"]["found"]
    assert str(home / "master.key") in told["master key"]["do"]


def test_doctor_fails_for_a_file_that_is_not_a_store(home: Path) -> None:
    (home / "broken.db").write_bytes(b"this is not a database at all, but it is long enough to look like one" * 20)
    code, told = found("--db", str(home / "broken.db"))

    assert code == 1
    assert told["store"]["state"] == "bad"


def test_doctor_fails_for_a_settings_mistake_and_still_reports_the_rest(home: Path) -> None:
    (home / "noetl.toml").write_text("prot = 1\n")
    code, told = found("--db", str(home / "x.db"))

    assert code == 1
    assert 'did you mean "port"' in told["settings"]["found"]
    assert told["disk"]["state"] == "ok"


def test_doctor_reports_an_unreachable_server_and_an_unreachable_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_NATS", "nats://127.0.0.1:9")
    code, told = found("--server", "http://127.0.0.1:9")

    assert code == 1
    assert told["server"]["state"] == "bad"
    assert told["broker"]["state"] == "warning", "a cluster works without it"


def test_doctor_checks_a_named_server_in_a_project_with_its_own_store(home: Path) -> None:
    (home / "noetl.toml").write_text('db = "project.db"\n')
    code, told = found("--server", "http://127.0.0.1:9")

    assert code == 1
    assert told["server"]["state"] == "bad"


def test_doctor_does_not_migrate_an_older_store(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = database.known_migrations()
    for module in (store, database):
        monkeypatch.setattr(module, "known_migrations", lambda: known[:-1])
    call("run", str(FIXTURES / "F-000-A.yaml"), "--quiet")
    monkeypatch.undo()
    monkeypatch.setenv("NOETL_HOME", str(home))

    code, told = found()

    assert code == 0
    assert told["migrations"] == {
        "what": "migrations",
        "state": "warning",
        "found": "1 to run",
        "do": "noetl db backup FILE, then noetl db migrate",
    }
    assert len(SqliteHistory.applied(home / "noetl.db").missing) == 1


def test_each_line_of_doctor_has_a_symbol_and_advice() -> None:
    code, out, _ = call("doctor")

    assert code == 0
    assert "✓  noetl" in out
    assert "→ the first run makes it" in out


def test_doctor_detects_another_package_called_noetl(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have a package `noetl`: what was installed last has overwritten the other."""
    other = home / "site" / "noetl-9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: noetl\nVersion: 9.9\n")
    monkeypatch.syspath_prepend(str(home / "site"))

    code, told = found()

    assert code == 1
    assert (told["other noetl"]["state"], "9.9" in told["other noetl"]["found"]) == ("bad", True)


def test_doctor_names_the_versions_of_outdated_workers() -> None:
    own = own_version()
    new, old = (WorkerInfo(worker_id=one, capacity=4, version=one) for one in (own, "0.0.9"))

    same, mixed, behind = (workers_finding(found) for found in ([new, new], [new, old], [old]))

    assert (same.state, same.found) == ("ok", f"2 of them, for 8 orders at a time, of version {own}")
    assert (mixed.state, mixed.do) == ("warning", "restart the older ones with the newer version")
    assert mixed.found.endswith(f"of 2 versions: 0.0.9, {own}")
    assert (behind.state, behind.do) == ("note", "after an upgrade, restart the servers and then the workers")
    assert behind.found.endswith(f"of version 0.0.9; this program is {own}")
