"""`noetl notification` on a store, and over a server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from noetl.control.notifications.notices import NoticeBody
from noetl.net.net import Destination
from noetl.store.notices import NoticeRow, NoticeState
from noetl.store.sqlite.store import SqliteStore
from tests.cli.running import call
from tests.contracts.commits import commit, event

RULE = "on: [failed]\npath: billing/*\nnotify:\n  - slack: {auth: chat}\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    return tmp_path


def stored(home: Path, **values: object) -> None:
    """One notice in the store of this home."""
    to = Destination(kind="webhook", options={"url": "https://example.org/services/a-secret-path"})
    row = NoticeRow(
        notice_id="n1",
        execution_id="x1",
        path="billing/nightly",
        event="failed",
        rule="ops",
        created_at=1.0,
        due_at=1.0,
        body=msgspec.json.encode(NoticeBody(destination=to)),
    )

    async def write() -> None:
        store = SqliteStore.open(home / "noetl.db")
        notice = msgspec.structs.replace(row, **values)
        await store.commit([msgspec.structs.replace(commit(event(1), after=0), notices=(notice,))])
        await store.close()

    asyncio.run(write())


def test_a_rule_is_set_listed_and_deleted(home: Path) -> None:
    (home / "ops.yaml").write_text(RULE)

    assert call("notification", "rule", "set", "ops", str(home / "ops.yaml"))[:2] == (0, "rule ops is set\n")
    assert call("notification", "rule", "set", "spare", "-", stdin=RULE)[0] == 0
    code, out, _ = call("notification", "rule", "list", "-o", "json")
    assert code == 0
    assert [(one["name"], one["on"]) for one in json.loads(out)] == [("ops", ["failed"]), ("spare", ["failed"])]
    assert "billing/*" in call("notification", "rule", "list")[1]
    assert call("notification", "rule", "delete", "ops")[0] == 0
    code, _, err = call("notification", "rule", "delete", "ops")
    assert (code, "no notification rule" in err) == (4, True)


@pytest.mark.parametrize(("text", "said"), [("on: [failed", "1"), ("on: [failed]\n", "destination"), ("on: 1\n", "on")])
def test_an_impossible_notification_rule_is_refused(home: Path, text: str, said: str) -> None:
    (home / "ops.yaml").write_text(text)

    code, _, err = call("notification", "rule", "set", "ops", str(home / "ops.yaml"))

    assert code in (2, 4)
    assert said in err


@pytest.mark.req("NTF-05")
def test_a_dead_letter_is_shown_and_sent_again(home: Path) -> None:
    stored(home, state=NoticeState.DEAD, error="it answered 410", attempts=3, ended_at=2.0)

    code, out, _ = call("notification", "list", "--state", "dead")
    assert code == 0
    assert "it answered 410" in out
    assert "a-secret-path" not in out
    assert "webhook example.org" in call("notification", "show", "n1")[1]
    assert call("notification", "retry", "n1")[:2] == (0, "1 to be sent again\n")
    code, _, err = call("notification", "retry", "n1")
    assert (code, "only dead letters" in err) == (4, True)
    assert call("notification", "retry", "--all")[:2] == (0, "0 to be sent again\n")
    assert call("notification", "retry")[0] == 2


def test_only_a_server_can_test_a_notification_rule() -> None:
    code, _, err = call("notification", "test", "ops")

    assert code == 4
    assert "no server is selected" in err
