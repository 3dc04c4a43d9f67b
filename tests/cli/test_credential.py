"""`noetl credential`: values go in and are never shown again (reliability.md §2.6)."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest

from noetl.cli.credential import _TYPES
from noetl.secrets.credential_types import TYPES
from tests.cli.running import call
from tests.servers.http import HttpServer, Reply, Request, reply
from tests.servers.mariadb import mariadb


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    monkeypatch.delenv("NOETL_MASTER_KEY", raising=False)
    monkeypatch.delenv("NOETL_MASTER_KEY_FILE", raising=False)
    return tmp_path


def listed() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(call("credential", "list", "-o", "json")[1])
    return found


@pytest.mark.req("KEY-05", "KEY-06")
def test_a_credential_is_stored_encrypted_and_listed_by_name(home: Path) -> None:
    code, out, err = call(
        "credential", "set", "pg", "--type", "postgres", stdin='{"host": "db", "password": "hunter22"}'
    )

    assert (code, out) == (0, "stored pg (postgres, version 1)\n")
    assert err.startswith(f"created a master key for credentials: {home / 'master.key'}; keep a copy of it")
    assert err.count("\n") == 1
    [one] = listed()
    assert (one["name"], one["type"], one["version"]) == ("pg", "postgres", 1)
    assert "pg" in call("credential", "list")[1]
    for file in home.iterdir():
        assert b"hunter22" not in file.read_bytes()


def test_a_store_with_a_missing_master_key_gets_no_second_key(home: Path) -> None:
    call("credential", "set", "t", stdin="some value")
    (home / "master.key").unlink()

    code, _, err = call("credential", "set", "u", stdin="another value")

    assert code == 4
    assert f"under master key {listed()[0]['key_id']}, which is not here" in err
    assert str(home / "master.key") in err
    assert not (home / "master.key").exists()


def test_the_master_key_is_created_with_the_first_credential(home: Path) -> None:
    call("credential", "list")
    assert not (home / "master.key").exists()

    call("credential", "set", "t", stdin="some value")

    assert (home / "master.key").stat().st_mode & 0o777 == 0o600


def test_a_credential_value_is_read_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "from the variable")

    assert call("credential", "set", "t", "--type", "bearer", "--from-env", "TOKEN")[0] == 0
    assert call("credential", "set", "t", "--from-env", "NOT_SET")[0] == 2


def test_setting_a_value_again_creates_the_next_version() -> None:
    call("credential", "set", "t", stdin="first value\n")
    before = listed()[0]

    _, out, _ = call("credential", "set", "t", stdin="second value\n")

    assert out == "stored t (text, version 2)\n"
    assert listed()[0]["fingerprint"] != before["fingerprint"]


def test_a_value_too_short_to_be_masked_gets_a_warning() -> None:
    code, _, err = call("credential", "set", "pin", stdin="1234")

    assert code == 0
    assert "shorter than 6 characters" in err
    assert "1234" not in err


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "says"),
    [
        (("set", "t"), "", 2, "the value is empty"),
        (("set", "t"), "{broken", 2, "begins like a JSON object"),
        (("set", "t"), b"\xff\xfe", 2, "not UTF-8"),
        (("set", "t", "--type", "basic"), "nocolon", 4, "user:password"),
        (("delete", "nobody"), None, 4, 'no credential "nobody"'),
        (("set", "t", "--type", "odd"), "x", 2, "odd"),
    ],
)
def test_an_impossible_credential_command_prints_the_reason_and_exit_code(
    arguments: tuple[str, ...], stdin: str | bytes | None, code: int, says: str
) -> None:
    ended, _, err = call("credential", *arguments, stdin=stdin)

    assert (ended, says in err) == (code, True), err


def test_rotation_encrypts_everything_with_a_new_key() -> None:
    for name in ("a", "b"):
        call("credential", "set", name, stdin=f"value of {name}")
    before = {one["key_id"] for one in listed()}

    code, out, _ = call("credential", "rotate")

    after = {one["key_id"] for one in listed()}
    assert code == 0
    assert out == f"2 credentials now encrypted under master key {after.copy().pop()}\n"
    assert len(after) == 1
    assert not after & before


def test_a_second_store_uses_the_key_that_rotating_the_first_one_created(home: Path) -> None:
    """Both share one key file, so its old keys stay; rotating the second makes no third key."""
    other = str(home / "other.db")
    call("credential", "set", "a", stdin="value of a")
    call("credential", "set", "b", "--db", other, stdin="value of b")
    call("credential", "rotate")

    call("credential", "rotate", "--db", other)

    keys = [line for line in (home / "master.key").read_text().splitlines() if not line.startswith("#")]
    assert len(keys) == 2
    assert json.loads(call("credential", "list", "--db", other, "-o", "json")[1])[0]["key_id"] == listed()[0]["key_id"]


def test_a_deleted_credential_is_gone() -> None:
    call("credential", "set", "t", stdin="some value")

    assert call("credential", "delete", "t") == (0, "deleted t\n", "")
    assert listed() == []


def test_a_lost_master_key_is_reported_and_listing_still_works(home: Path) -> None:
    call("credential", "set", "t", stdin="some value")
    (home / "master.key").unlink()

    assert listed()[0]["name"] == "t"
    code, _, err = call("credential", "rotate")

    assert code == 4
    assert "there is no master key" in err


def test_every_type_of_credential_can_be_chosen() -> None:
    assert set(_TYPES) == set(TYPES)


@pytest.mark.timeout(600)  # the first run fetches MariaDB
def test_a_stored_credential_is_tested_with_the_tool_of_its_type() -> None:
    fields = mariadb().auth
    call("credential", "set", "shop", "--type", "mysql", stdin=json.dumps(fields))
    call("credential", "set", "wrong", "--type", "mysql", stdin=json.dumps({**fields, "password": "not the password"}))

    good, bad = call("credential", "test", "shop"), call("credential", "test", "wrong")

    assert good == (0, 'ok: connected to the mysql database "shop" at 127.0.0.1\n', "")
    assert bad[0] == 4
    assert "(1045)" in bad[2]
    assert "not the password" not in bad[1] + bad[2]


def test_a_bearer_token_is_tested_against_an_address_that_requires_it() -> None:
    def asked(request: Request) -> Reply:
        return reply(200 if request.headers.get("authorization") == "Bearer right-token-4711" else 401)

    call("credential", "set", "right", "--type", "bearer", stdin="right-token-4711")
    call("credential", "set", "wrong", "--type", "bearer", stdin="wrong-token-4711")
    with HttpServer({"GET /me": asked}) as server:
        good, bad = (call("credential", "test", name, "--url", f"{server.url}/me") for name in ("right", "wrong"))
        nowhere = call("credential", "test", "right")

    assert good == (0, f"ok: GET {server.url}/me answered 200 OK\n", "")
    assert bad == (4, "", f"error: GET {server.url}/me answered 401 Unauthorized\n")
    assert nowhere[0] == 4
    assert "--url https://" in nowhere[2]


def test_an_oauth2_client_is_tested_by_requesting_a_token() -> None:
    def asked(request: Request) -> Reply:
        if request.headers["authorization"] == "Basic " + b64encode(b"shop:right-secret-4711").decode():
            return reply(200, json={"access_token": "granted-token-0815", "expires_in": 60})
        return reply(401, json={"error": "invalid_client", "error_description": "wrong-secret-4711 is not it"})

    def me(request: Request) -> Reply:
        return reply(200 if request.headers.get("authorization") == "Bearer granted-token-0815" else 401)

    with HttpServer({"POST /token": asked, "GET /me": me}) as server:
        for name in ("right", "wrong"):
            client = {"token_url": f"{server.url}/token", "client_id": "shop", "client_secret": f"{name}-secret-4711"}
            call("credential", "set", name, "--type", "oauth2", stdin=json.dumps(client))
        good, bad = call("credential", "test", "right"), call("credential", "test", "wrong")
        used = call("credential", "test", "right", "--url", f"{server.url}/me")

    host = server.url.removeprefix("http://")
    assert good == (0, f"ok: {host} gave a token\n", "")
    assert used == (0, f"ok: GET {server.url}/me answered 200 OK\n", "")
    assert bad[0] == 4
    assert f"the token endpoint {host} gave no token (status 401, invalid_client)" in bad[2]
    assert not any(secret in "".join(map(str, (*good, *bad, *used))) for secret in ("secret-4711", "granted-token"))


def test_a_kind_that_cannot_test_credentials_names_the_kinds_that_can() -> None:
    call("credential", "set", "word", stdin="some value")

    code, _, err = call("credential", "test", "word", "--kind", "python")

    assert code == 4
    assert 'the tool "python" has no way to try a credential; these have: http, ' in err
    assert " postgres, " in err


def test_a_credential_that_no_tool_can_test_names_those_that_can() -> None:
    call("credential", "set", "word", stdin="some value")

    code, _, err = call("credential", "test", "word")
    missing = call("credential", "test", "nowhere")

    assert code == missing[0] == 4
    assert 'type "text" cannot be tried; these can: amqp, azure, ' in err
    assert 'there is no credential "nowhere"' in missing[2]


def test_fields_that_are_not_secret_are_neither_masked_nor_warned_about() -> None:
    call("credential", "set", "first", stdin="so that there is a key")
    value = '{"host": "mail", "port": 25, "user": "me", "password": "hunter22", "tls": "none"}'

    told = call("credential", "set", "mail", "--type", "email", stdin=value)

    assert told == (0, "stored mail (email, version 1)\n", "")
