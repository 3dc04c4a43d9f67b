"""`noetl watch`, `noetl tools`, completion, and the run that nobody runs (DEPENDENCIES §6)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from noetl.cli.main import noetl
from tests.cli.running import call, process
from tests.cli.stored import stored
from tests.cli.waiting_run import WaitingRun, done, left_waiting, refused, told
from tests.control.waiting import MESSAGE
from tests.engine_script import playbook


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """The store, a run that completed, one that failed."""
    db, completed, failed = stored(tmp_path_factory.mktemp("watch"))
    return db, completed.execution_id, failed.execution_id


def test_a_finished_run_is_told_to_its_end(runs: tuple[str, str, str]) -> None:
    db, completed, failed = runs

    code, out, err = call("watch", completed, "--db", db)
    assert (code, json.loads(out)) == (0, {"said": "all done"})
    assert "completed" in err
    assert call("watch", completed, "-q", "--db", db)[2] == ""
    assert json.loads(call("watch", completed, "-o", "json", "--db", db)[1])["status"] == "completed"
    code, out, err = call("watch", failed, "--db", db)
    assert (code, out) == (1, "")
    assert "no luck" in err


def test_a_run_of_another_process_is_followed_until_its_end(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(playbook(MESSAGE))
    with WaitingRun(file, tmp_path, "waits", 'for message "paid"') as run:
        code, out, err = call("watch", "last", "--timeout", "0.2s", "--db", run.db)
        assert (code, out) == (5, "")
        assert "goes on in its own process" in err
        done(run.db, "message", "send", "paid", "-c", "order=7")
        assert call("watch", "last", "-q", "--db", run.db)[0] == 0
        assert run.end()[0] == 0


def test_a_run_that_only_waits_and_that_nobody_runs_is_said_to_be_so(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    given = left_waiting(db, playbook(MESSAGE))

    assert f"nobody runs it now; take it up with: noetl run --db {db} --resume {given}" in done(db, "status", given)
    assert told(db, "status", given)["abandoned"] is True
    assert "take it up with" in refused(db, "watch", given)


def test_a_waiting_run_with_somebody_there_is_not_abandoned(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(playbook(MESSAGE))
    with WaitingRun(file, tmp_path, "waits", 'for message "paid"') as run:
        assert told(run.db, "status", "last")["abandoned"] is False


def test_tools_says_where_each_kind_comes_from() -> None:
    code, out, _ = call("tools", "-o", "json")
    kinds = {one["kind"]: one for one in json.loads(out)}

    assert code == 0
    assert (kinds["http"]["origin"], kinds["http"]["state"]) == ("noetl", "ready")
    assert kinds["shell"]["state"] == "off; --allow shell"
    assert kinds["snowflake"]["state"] == "pip install noetl-engine[snowflake]"
    assert "url" in kinds["http"]["inputs"]
    assert "http" in call("tools", "-o", "id")[1].split()


def test_tools_follows_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_ALLOW", "shell,script")
    monkeypatch.setenv("NOETL_DENY", "script,http")

    kinds = {one["kind"]: one["state"] for one in json.loads(call("tools", "-o", "json")[1])}

    assert kinds["shell"] == kinds["postgres"] == "ready"
    assert kinds["script"] == kinds["http"] == "denied by the settings"


def asked(words: str) -> dict[str, str]:
    """What a shell says of the line that is to be completed."""
    return {"_NOETL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}


def completed(words: str, **environment: str) -> list[str]:
    """In this process, where it has the time it takes: a person's shell is told nothing after a second."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {**asked(words), **environment}.items():
            patched.setenv(name, value)
        found = BashComplete(noetl, {}, "noetl", "_NOETL_COMPLETE").complete()
    return [line.partition(",")[2] for line in found.split()]


def test_execution_ids_and_steps_are_completed_from_the_store(runs: tuple[str, str, str], tmp_path: Path) -> None:
    db, first, second = runs
    home = {"NOETL_DB": db, "NOETL_HOME": str(tmp_path)}

    assert completed("noetl status ", **home) == ["last", second, first]
    assert completed(f"noetl status {first[:35]}", **home) in ([first], [second, first])
    assert completed(f"noetl result {first} --step ", **home) == ["start", "each", "finish"]
    assert "tests/test" in completed("noetl catalog show ", **home)


def test_completion_is_silent_about_what_goes_wrong(tmp_path: Path) -> None:
    for where in ({"NOETL_DB": str(tmp_path / "none.db")}, {"NOETL_SERVER": "http://127.0.0.1:9"}):
        ended = process(**asked("noetl status "), **where, NOETL_HOME=str(tmp_path))
        assert (ended.stdout.split(), ended.stderr) == ([], "")
    assert not (tmp_path / "none.db").exists()
