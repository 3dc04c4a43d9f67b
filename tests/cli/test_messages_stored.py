"""`noetl message list` and `delete`: the same through a server and on its file (MSG-03, CLI-02)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import call
from tests.cli.served_here import served_here
from tests.cli.waiting_run import done, json_output, left_waiting, refused
from tests.control.waiting import MESSAGE
from tests.engine_script import playbook


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "s.db")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """A server and its file, as options."""
    home = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NOETL_HOME", str(home))
        for name in ("NOETL_MASTER_KEY", "NOETL_MASTER_KEY_FILE", "NOETL_SERVER"):
            patched.delenv(name, raising=False)
        file = home / "noetl.db"
        token = call("token", "create", "ann", "--role", "operator", "--db", str(file))[1].strip()
        patched.setenv("NOETL_TOKEN", token)
        with served_here(file) as url:
            yield ("--server", url), ("--db", str(file))


@pytest.mark.req("MSG-03", "CLI-02")
def test_stored_messages_are_listed_and_deleted_alike_on_a_server_and_its_file(
    both: tuple[tuple[str, str], tuple[str, str]],
) -> None:
    there, here = both
    for number in range(4):
        keys = ("-c", f"order={number}", "-c", "shop=é", "--payload", '{"pin": "s3cr3t"}')
        assert call("message", "send", "paid", *keys, "--id", f"a/{number}", *there)[0] == 0
    assert call("message", "send", "billed", "--id", "b", *there)[0] == 0

    for form in ("table", "json", "jsonl", "yaml", "id"):
        for more in ((), ("--name", "paid"), ("--limit", "2"), ("--name", "nothing")):
            asked = ("message", "list", "-o", form, *more)
            assert call(*asked, *there) == call(*asked, *here)
            assert "s3cr3t" not in call(*asked, *there)[1]
    assert call("message", "list", "-o", "id", *there)[1].split() == ["b", "a/3", "a/2", "a/1", "a/0"]
    rows = json.loads(call("message", "list", "--name", "paid", "-o", "json", *here)[1])
    assert rows[0] | {"sent_at": "", "expires_at": ""} == {
        "message_id": "a/3",
        "name": "paid",
        "correlation": {"order": 3, "shop": "é"},
        "size_bytes": 16,
        "sent_at": "",
        "expires_at": "",
    }

    assert call("message", "delete", "a/0", *there) == (0, "deleted message a/0\n", "")
    assert call("message", "delete", "a/1", *here) == (0, "deleted message a/1\n", "")
    assert call("message", "delete", "a/1", *there) == call("message", "delete", "a/1", *here)
    assert call("message", "delete", "--name", "paid", "--yes", *there)[1] == 'deleted 2 messages "paid"\n'
    assert call("message", "delete", "--name", "billed", "--yes", *here)[1] == 'deleted 1 message "billed"\n'
    assert call("message", "list", *there) == (0, "no message is undelivered\n", "")


@pytest.mark.req("MSG-03")
def test_more_messages_than_one_page_of_the_server_are_listed(
    both: tuple[tuple[str, str], tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = both
    monkeypatch.setattr("noetl.cli.messages._PAGE", 2)
    for number in range(5):
        assert call("message", "send", "many", "--id", f"n{number}", *there)[0] == 0

    for limit in ("3", "4", "5", "9"):
        asked = ("message", "list", "--name", "many", "-o", "id", "--limit", limit)
        assert call(*asked, *there) == call(*asked, *here)
        assert len(call(*asked, *there)[1].split()) == min(int(limit), 5)


@pytest.mark.req("MSG-03")
def test_a_truncated_list_says_so(db: str) -> None:
    for number in range(2):
        done(db, "message", "send", "paid", "--id", f"m{number}")

    code, out, err = call("message", "list", "--limit", "1", "--db", db)
    heads, line = out.splitlines()

    assert (code, err) == (0, "the newest 1; --limit shows more\n")
    assert heads.split() == ["NAME", "ID", "CORRELATION", "SIZE", "SENT", "EXPIRES"]
    assert line.split()[:5] == ["paid", "m1", "-", "4", "B"]


@pytest.mark.req("MSG-02", "MSG-03")
def test_undeletable_messages_are_reported_and_the_rest_is_deleted(db: str) -> None:
    left_waiting(db, playbook(MESSAGE))
    done(db, "message", "send", "paid", "-c", "order=7", "--id", "taken")
    assert call("run", "--resume", "last", "--db", db)[0] == 0
    done(db, "message", "send", "paid", "-c", "order=8", "--id", "kept")

    code, out, err = call("message", "delete", "taken", "unknown", "kept", "--db", db)

    assert (code, out) == (4, "deleted message kept\n")
    first, second = err.splitlines()
    assert first.startswith('error: message "taken" was delivered to execution ')
    assert second.startswith('error: there is no message "unknown" here')
    assert json_output(db, "message", "list") == []
    assert json_output(db, "message", "send", "paid", "-c", "order=7", "--id", "taken")["delivered_to"] is not None
    actions = [(one["action"], one["object"]) for one in json_output(db, "audit", "list")]
    assert actions == [("message delete", "kept")]


@pytest.mark.req("MSG-03")
def test_deleting_all_messages_of_a_name_needs_confirmation(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done(db, "message", "send", "paid", "--id", "m1")
    every = ("message", "delete", "--name", "paid", "--db", db)

    assert "use --yes" in call(*every)[2]
    assert call(*every)[0] == 2
    monkeypatch.setattr("noetl.cli.messages._is_at_a_terminal", lambda: True)
    code, out, err = call(*every, stdin="n\n")
    assert (code, out, "nothing was deleted" in err) == (4, "", True)
    assert json_output(db, "message", "list") != []
    code, out, err = call(*every, stdin="y\n")

    assert (code, out) == (0, 'deleted 1 message "paid"\n')
    assert 'delete all undelivered messages "paid"?' in err
    assert call(*every, "--yes")[1] == 'deleted 0 messages "paid"\n'


def test_delete_requires_an_id_or_a_name(db: str) -> None:
    for wrong in ((), ("m1", "--name", "paid")):
        code, _, err = call("message", "delete", *wrong, "--db", db)
        assert (code, "or use --name NAME for all" in err) == (2, True), err
    assert "there is no store" in refused(db, "message", "list")
    assert "there is no store" in refused(db, "message", "delete", "m1")
