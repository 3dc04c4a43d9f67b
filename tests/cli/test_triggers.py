"""`noetl trigger` on a store file: made, shown, paused, deleted; a server does the polling."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import call
from tests.cli.waiting_run import done, json_output, refused
from tests.engine_script import HEAD

PATH = "tests/test"


@pytest.fixture
def db(tmp_path: Path) -> str:
    (tmp_path / "load.yaml").write_text(HEAD + "workflow: [{step: start, tool: {kind: noop}}]\n")
    db = str(tmp_path / "s.db")
    assert call("register", str(tmp_path / "load.yaml"), "--db", db)[0] == 0
    return db


def create(db: str, name: str = "drop") -> str:
    inputs = ("--input", "url=file:///data/in", "--input", "pattern=*.csv")
    return done(db, "trigger", "create", name, "--kind", "storage", "--playbook", PATH, *inputs, "--interval", "1m")


def test_a_trigger_is_created_shown_paused_and_deleted(db: str) -> None:
    assert "looks at   storage: url=file:///data/in, pattern=*.csv" in create(db)

    [listed] = json_output(db, "trigger", "list")
    assert (listed["name"], listed["path"], listed["interval_s"], listed["paused"]) == ("drop", PATH, 60.0, False)
    assert "polling" in done(db, "trigger", "list")
    assert done(db, "trigger", "pause", "drop") == "paused drop\n"
    assert "paused" in done(db, "trigger", "show", "drop")
    assert done(db, "trigger", "resume", "drop") == "resumed drop\n"
    assert done(db, "trigger", "dead-letters", "drop") == "no dead letters\n"
    assert done(db, "trigger", "retry", "drop").startswith("0 dead letters")
    assert done(db, "trigger", "delete", "drop") == "deleted drop\n"
    assert done(db, "trigger", "list").startswith("no triggers yet")


def test_numeric_inputs_of_a_trigger_are_stored_as_numbers(db: str) -> None:
    given = ("--input", "query=SELECT 1", "--input", "cursor=id", "--input", "start=-5", "--auth", "shop")
    done(db, "trigger", "create", "rows", "--kind", "postgres", "--playbook", PATH, *given)

    [listed] = json_output(db, "trigger", "list")
    assert listed["inputs"] == {"query": "SELECT 1", "cursor": "id", "start": -5, "auth": "shop"}


def test_an_invalid_trigger_is_refused(db: str) -> None:
    create(db)

    assert "already" in refused(
        db, "trigger", "create", "drop", "--kind", "storage", "--playbook", PATH, "--input", "url=file:///x"
    )
    assert 'there is no trigger "none"' in refused(db, "trigger", "pause", "none")
    assert 'has no dead letter "x"' in refused(db, "trigger", "retry", "drop", "--item", "x")
