"""`noetl token`, `noetl webhook` and `noetl audit` on a store: secrets are shown once, and actions are recorded."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from noetl.base.clock import SystemClock
from noetl.operations.tokens import AccessToken, AccessTokens
from noetl.server.configuration import ServerSettings
from noetl.server.server_process import Served, serving
from noetl.store.sqlite.store import SqliteStore
from tests.cli.running import call, process


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    monkeypatch.delenv("NOETL_MASTER_KEY", raising=False)
    monkeypatch.delenv("NOETL_MASTER_KEY_FILE", raising=False)
    return tmp_path


def identified(home: Path, text: str) -> AccessToken | None:
    async def look() -> AccessToken | None:
        store = SqliteStore.open(home / "noetl.db")
        try:
            return await AccessTokens(store.key_values, SystemClock()).authenticate(text)
        finally:
            await store.close()

    return asyncio.run(look())


def test_a_created_token_is_printed_once_and_alone(home: Path) -> None:
    code, out, err = call(
        "token", "create", "ann", "--role", "operator", "--human-role", "approver", "--expires", "90d"
    )

    text = out.strip()
    token = identified(home, text)
    assert code == 0
    assert token is not None
    assert (token.subject, token.role, token.human_roles) == ("ann", "operator", ("approver",))
    assert "not shown again" in err
    secret = text.split("_", 2)[2]
    assert secret not in call("token", "list")[1] + call("token", "list", "-o", "json")[1]
    for file in home.iterdir():
        assert secret.encode() not in file.read_bytes()


def test_tokens_are_listed_and_revoked_by_id_or_by_value(home: Path) -> None:
    made = json.loads(call("token", "create", "ann", "--role", "viewer", "-o", "json")[1])
    other = call("token", "create", "w1", "--role", "worker", "--pool", "gpu")[1].strip()

    assert call("token", "revoke", made["token_id"])[:2] == (0, f"revoked {made['token_id']} of ann\n")
    assert call("token", "revoke", other)[0] == 0
    assert identified(home, made["token"]) is None
    assert identified(home, other) is None
    lines = call("token", "list")[1].splitlines()
    assert [line.split()[1:3] for line in lines[1:]] == [["ann", "viewer"], ["w1", "worker"]]
    assert all("revoked" in line for line in lines[1:])
    code, _, err = call("token", "revoke", "unknown")
    assert (code, err) == (
        4,
        'error: there is no token "unknown": noetl token list shows the tokens with their ids\n',
    )


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("create", "ann"), 2, "--role"),
        (("create", "ann", "--role", "root"), 2, "viewer"),
        (("create", "ann", "--role", "viewer", "--expires", "soon"), 2, "not a duration"),
        (("create", "w", "--role", "worker"), 4, "names the pools"),
        (("create", "ann", "--role", "viewer", "--pool", "x"), 4, "are for workers"),
    ],
)
def test_an_invalid_token_request_is_refused(arguments: tuple[str, ...], code: int, says: str) -> None:
    ended, _, err = call("token", *arguments)

    assert (ended, says in err) == (code, True)


def test_a_webhook_is_created_with_its_key_listed_and_deleted(home: Path) -> None:
    code, out, err = call("webhook", "create", "orders", "--playbook", "demo/orders")
    assert 'warning: there is no playbook "demo/orders" in the catalogue yet' in err
    url, secret = (line.split()[1] for line in out.splitlines())

    assert code == 0
    assert (home / "master.key").exists()
    listed = call("webhook", "list")[1]
    assert "start demo/orders" in listed
    assert url in listed
    assert secret not in listed + call("webhook", "list", "-o", "json")[1]
    assert call("webhook", "create", "orders", "--playbook", "x")[0] == 4
    assert call("webhook", "delete", "orders")[:2] == (0, "deleted orders\n")
    assert call("webhook", "delete", "orders")[0] == 4


def test_a_webhook_can_send_a_message_correlated_by_fields() -> None:
    code, out, _ = call(
        "webhook", "create", "paid", "--message", "order.paid", "--match", "order=order.id", "-o", "json"
    )

    assert (code, json.loads(out)["target"]) == (0, {"message": "order.paid", "correlation": {"order": "order.id"}})
    assert "send order.paid by order=order.id" in call("webhook", "list")[1]
    assert call("webhook", "create", "x", "--message", "m", "--match", "order")[0] == 2
    assert call("webhook", "create", "x")[0] == 2
    assert call("webhook", "create", "x", "--playbook", "a", "--message", "b")[0] == 2


def test_administrative_commands_are_recorded_in_the_audit_log(home: Path) -> None:
    token_id = json.loads(call("token", "create", "ann", "--role", "viewer", "-o", "json")[1])["token_id"]
    call("token", "revoke", token_id)
    call("webhook", "create", "w", "--playbook", "p")
    call("webhook", "delete", "w")
    call("credential", "set", "db", stdin="hunter22")
    call("credential", "rotate")
    call("credential", "delete", "db")

    rows = json.loads(call("audit", "list", "-o", "json")[1])

    assert [(row["action"], row["object"]) for row in reversed(rows)] == [
        ("token create", token_id),
        ("token revoke", token_id),
        ("webhook create", "w"),
        ("webhook delete", "w"),
        ("credential set", "db"),
        ("credential rotate", "1 credentials"),
        ("credential delete", "db"),
    ]
    assert rows[0]["actor"].startswith("cli")
    assert call("audit", "list", "-n", "1", "--before", "4")[1].splitlines()[1].startswith("3 ")


def test_audit_verification_of_a_tampered_log_exits_with_1(home: Path) -> None:
    for name in ("a", "b", "c"):
        call("token", "create", name, "--role", "viewer")
    code, out, _ = call("audit", "verify")
    last = out.split()[-1]
    assert (code, out) == (0, f"3 rows, unbroken; the last hash is {last}\n")
    assert call("audit", "verify", "--holds", last)[0] == 0

    with closing(sqlite3.connect(home / "noetl.db")) as db, db:
        db.execute("DROP TRIGGER audit_is_never_deleted")
        db.execute("DELETE FROM audit WHERE seq = 3")
    assert call("audit", "verify")[0] == 0  # a chain cut off at its end is whole in itself
    assert call("audit", "verify", "--holds", last)[0] == 1
    with closing(sqlite3.connect(home / "noetl.db")) as db, db:
        db.execute("DELETE FROM audit WHERE seq = 1")
    code, _, err = call("audit", "verify")
    assert (code, err) == (1, "broken at row 2: row 1 is missing\n")


def test_access_commands_import_no_web_framework(home: Path) -> None:
    done = process("token", "list", PYTHONPROFILEIMPORTTIME="1", NOETL_HOME=str(home))

    assert done.returncode == 0
    assert "noetl.operations.tokens" in done.stderr
    assert "fastapi" not in done.stderr
    assert "asyncpg" not in done.stderr


@pytest.fixture
def served(home: Path) -> Iterator[tuple[str, ...]]:
    """The options that name a running server, whose administrator asks."""
    call("webhook", "create", "first", "--playbook", "p")  # so that there is a master key
    token = call("token", "create", "root", "--role", "admin")[1].strip()
    found: list[Served] = []
    ready, stop = threading.Event(), asyncio.Event()

    async def up() -> None:
        async with serving(ServerSettings(db=str(home / "noetl.db"), port=0)) as one:
            found.append(one)
            ready.set()
            await stop.wait()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(up()))
    thread.start()
    assert ready.wait(100)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NOETL_TOKEN", token)
        yield ("--server", found[0].url)
    loop.call_soon_threadsafe(stop.set)
    thread.join(100)
    loop.close()


def test_access_commands_work_on_a_server_too(served: tuple[str, ...], home: Path) -> None:
    made = json.loads(call("token", "create", "ann", "--role", "viewer", "-o", "json", *served)[1])
    assert identified(home, made["token"]) is not None
    # Without the last use: asking the server is one, and the store hears of it later.
    by_server, by_store = (
        [line.rpartition("  ")[0] for line in call("token", "list", *place)[1].splitlines()]
        for place in (served, ("--db", str(home / "noetl.db")))
    )
    assert by_server == by_store
    assert any("ann" in line for line in by_server)
    assert call("token", "revoke", made["token_id"], *served)[:2] == (0, f"revoked {made['token_id']} of ann\n")
    assert call("token", "revoke", "nobody", *served)[0] == 4

    code, out, err = call("webhook", "create", "orders", "--playbook", "p", "--version", "2", *served)
    assert (code, out.split()[0], "not shown again" in err) == (0, "url", True)
    assert "start p 2" in call("webhook", "list", *served)[1]
    assert call("webhook", "delete", "orders", *served)[0] == 0
    assert call("webhook", "delete", "orders", *served)[0] == 4
    assert call("webhook", "create", "both", "--playbook", "p", "--message", "m", *served)[0] == 2

    assert "POST /api/tokens" in call("audit", "list", *served)[1]
    code, out, _ = call("audit", "verify", *served)
    assert (code, "unbroken" in out) == (0, True)
    assert call("audit", "verify", "--holds", out.split()[-1], *served)[0] == 0
    assert call("audit", "verify", "--holds", "f" * 64, *served)[0] == 1


def test_a_token_with_a_given_value_is_stored_and_not_printed(home: Path, tmp_path: Path) -> None:
    text = "noetl_worker_abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
    file = tmp_path / "worker.token"
    file.write_text(text + "\n")
    options = ("--role", "worker", "--pool", "default", "--from-file", str(file))

    ended = [call("token", "create", "workers", *options) for _ in range(2)]

    assert ended == [(0, "", "token worker (worker) is stored\n")] * 2
    token = identified(home, text)
    assert token is not None
    assert token.pools == ("default",)
    code, _, err = call("token", "create", "workers", *options, "--server", "http://127.0.0.1:1")
    assert (code, err) == (4, "error: --from-file works on a store only: use --db, and neither --server nor --out\n")
