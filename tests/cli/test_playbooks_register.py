"""`noetl register` (CLI-02, SRV-10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import call

GOOD = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: n, path: jobs/a}\nworkflow: [{step: start}]\n"


@pytest.mark.req("CLI-02", "SRV-10")
def test_register_creates_a_new_version_only_for_a_changed_playbook(tmp_path: Path) -> None:
    file, db = tmp_path / "a.yaml", str(tmp_path / "s.db")
    told = []
    for text in (GOOD, GOOD + "# only a comment\n", GOOD.replace("step: start", "step: start, desc: more")):
        file.write_text(text)
        told.append(call("register", str(file), "--db", db))

    assert told == [(0, f"jobs/a version {number}\n", "") for number in (1, 1, 2)]


def test_nothing_is_registered_if_one_playbook_has_errors(tmp_path: Path) -> None:
    good, bad, db = tmp_path / "good.yaml", tmp_path / "bad.yaml", tmp_path / "s.db"
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("step: start", "stp: start"))

    code, out, _ = call("register", str(good), str(bad), "--db", str(db))

    assert code == 3
    assert "version" not in out
    assert not db.exists()


def test_a_playbook_from_standard_input_is_registered_without_a_file(tmp_path: Path) -> None:
    assert call("register", "-", "--db", str(tmp_path / "s.db"), stdin=GOOD)[:2] == (0, "jobs/a version 1\n")


NOTIFYING = GOOD + "on: {failed: {notify: {email: {to: ops@example.org, auth: mail}}}}\n"


def test_a_notification_with_a_missing_credential_gets_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    file, db = tmp_path / "a.yaml", str(tmp_path / "s.db")
    file.write_text(NOTIFYING)
    code, out, err = call("register", str(file), "--db", db)

    assert (code, out) == (0, "jobs/a version 1\n")
    assert f'names the credential "mail", which is not stored yet: noetl credential set mail --db {db}\n' in err

    call("credential", "set", "mail", "--db", db, stdin="long-enough")
    assert call("register", str(file), "--db", db) == (0, "jobs/a version 1\n", "")


def test_registering_a_folder_registers_every_playbook_below_it(tmp_path: Path) -> None:
    (tmp_path / "books" / "deep").mkdir(parents=True)
    (tmp_path / "books" / "a.yaml").write_text(GOOD)
    (tmp_path / "books" / "deep" / "b.yml").write_text(GOOD.replace("jobs/a", "jobs/b"))
    (tmp_path / "books" / "other.yaml").write_text("just: data\n")

    done = call("register", str(tmp_path / "books"), "--db", str(tmp_path / "s.db"))

    assert done == (0, "jobs/a version 1\njobs/b version 1\n", "")
