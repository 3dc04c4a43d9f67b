"""`noetl limit`: on a store with a run in another process, on one without a process, and on a server (beyond.md §5)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import call
from tests.cli.served_here import served_here
from tests.cli.waiting_run import WaitingRun, done, json_output, left_waiting, refused
from tests.engine_script import playbook

STEPS = playbook("""
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: nap}, {step: nap}, {step: nap}, {step: call}, {step: call}]}
  - {step: nap, spec: {concurrency: {limit: 1}}, timer: {duration: 1h}}
  - {step: call, spec: {rate: {limit: 1, per: 1h}}, timer: {duration: 1h}}
""")
ONE_AT_ONCE = playbook("""
executor: {spec: {concurrency: {limit: 1}}}
workflow:
  - step: start
    timer: {duration: 1h}
""")


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    file = tmp_path / "steps.yaml"
    file.write_text(STEPS)
    return file


def row(db: str, step: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in json_output(db, "limit", "list", "last") if one["step"] == step)
    return found


def test_limits_of_a_run_in_another_process_are_changed(steps: Path, tmp_path: Path) -> None:
    with WaitingRun(steps, tmp_path, "waits until") as run:
        assert done(run.db, "limit", "set", "last", "--step", "nap", "--limit", "3").endswith("3 at once\n")
        assert done(run.db, "limit", "set", "last", "--step", "nap", "--limit", "3").endswith("3 at once, as it was\n")
        assert done(run.db, "limit", "set", "last", "--step", "call", "--rate", "10/s").endswith("10 in 1 s\n")

        nap, paced = row(run.db, "nap"), row(run.db, "call")
        assert (nap["written"], nap["limit"], nap["running"], nap["waiting"]) == (1, 3, 3, 0)
        assert (paced["rate"], paced["paced"]) == ({"limit": 10, "per": 1.0}, 0)
        assert "as the playbook says" in done(run.db, "limit", "reset", "last", "--step", "nap")
        assert row(run.db, "nap")["limit"] is None


def test_limits_of_an_abandoned_run_are_changed_and_stored(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    left_waiting(db, STEPS)

    done(db, "limit", "set", "last", "--step", "nap", "--limit", "2")

    table = done(db, "limit", "list", "last").splitlines()
    assert [line.split() for line in table] == [
        ["STEP", "WHAT", "WRITTEN", "SET", "RUNNING", "WAITING"],
        ["nap", "at", "once", "1", "2", "2", "1"],
        ["call", "rate", "1", "in", "1h", "-", "-", "1"],
    ]


def test_a_raised_playbook_limit_admits_a_run_waiting_in_another_process(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(ONE_AT_ONCE)
    with WaitingRun(file, tmp_path, "waits until") as first, WaitingRun(file, tmp_path, "too many executions"):
        assert [(one["running"], one["waiting"]) for one in json_output(first.db, "limit", "list", "tests/test")] == [
            (1, 1)
        ]

        assert done(first.db, "limit", "set", "tests/test", "--limit", "2") == "tests/test: 2 at once\n"

        until = time.monotonic() + 90
        while json_output(first.db, "status", "last")["status"] != "running":
            assert time.monotonic() < until
        assert done(first.db, "limit", "reset", "tests/test") == "tests/test: as the playbook says\n"
        assert done(first.db, "limit", "reset", "tests/test") == "tests/test: as the playbook says, as it was\n"


def test_limits_work_the_same_on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    monkeypatch.setenv("NOETL_TOKEN", call("token", "create", "ann", "--role", "operator")[1].strip())
    file, db = tmp_path / "steps.yaml", tmp_path / "noetl.db"
    file.write_text(STEPS)
    done(str(db), "register", str(file))
    with served_here(db) as url:

        def there(*arguments: str, code: int = 0) -> str:
            status, stdout, stderr = call(*arguments, "--server", url)
            assert status == code, stdout + stderr
            return stdout + stderr

        there("run", "tests/test", "--detach")
        assert "3 at once" in there("limit", "set", "last", "--step", "nap", "--limit", "3", "--reason", "it is late")
        assert there("limit", "list", "last") == done(str(db), "limit", "list", "last")
        assert "as the playbook says" in there("limit", "reset", "last", "--step", "nap")
        assert there("limit", "set", "tests/test", "--limit", "4") == "tests/test: 4 at once\n"
        assert there("limit", "list") == done(str(db), "limit", "list")
        assert there("limit", "reset", "tests/test") == "tests/test: as the playbook says\n"
        assert 'no step "wrk"' in there("limit", "set", "last", "--step", "wrk", "--limit", "1", code=4)
        assert '"tests/none"' in there("limit", "set", "tests/none", "--limit", "1", code=4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "tests/test"), "use --limit N, --rate N/TIME, or both"),
        (("set", "tests/test", "--rate", "1/s"), "name it with --step"),
        (("set", "last", "--step", "nap", "--limit", "0"), "not a whole number of at least 1"),
        (("set", "last", "--step", "nap", "--limit", "many"), "not a whole number of at least 1"),
        (("set", "last", "--step", "nap", "--rate", "fast"), "not a rate such as 10/s"),
        (("set", "last", "--step", "nap", "--rate", "0/s"), "not a rate such as 10/s"),
    ],
)
def test_an_invalid_limit_is_refused_before_any_work(arguments: tuple[str, ...], said: str) -> None:
    code, _, stderr = call("limit", *arguments)

    assert code == 2
    assert said in stderr


def test_unknown_steps_and_playbooks_are_refused(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    left_waiting(db, STEPS)

    assert 'no step "wrk"' in refused(db, "limit", "set", "last", "--step", "wrk", "--limit", "2")
    assert 'no playbook "tests/none"' in refused(db, "limit", "set", "tests/none", "--limit", "2")
