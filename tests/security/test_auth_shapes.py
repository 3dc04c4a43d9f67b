"""`auth` of an unknown shape is an error that names the shapes; an address in it is never shown, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.net.secret_reads import credential_name
from noetl.templates.sql.binding import read
from noetl.tools.contract import ToolContext
from noetl.tools.duckdb.tool import DuckdbTool
from noetl.tools.nats import target_of as nats_target
from noetl.tools.postgres.targets import target_of as postgres_target
from noetl.tools.postgres.tool import PostgresTool
from tests.tools.sql_tasks import context, outcome_of

PASSWORD = "hunter2-canary"
SHAPES: list[Any] = [
    None,
    "",
    {},
    [],
    ["pg"],
    5,
    True,
    {"type": "postgres"},
    {"pg": "warehouse"},
    {"credential": 7},
    {"data": {}},
]


def known(name: str) -> dict[str, Any]:
    if name == "warehouse":
        return {"host": "db", "user": "ada", "password": PASSWORD}
    if name == "empty":
        return {}
    raise ToolError("keychain.unresolved", f'there is no credential "{name}"')


def here() -> ToolContext:
    return context(resolve=known)


@pytest.mark.req("KEY-02")
@pytest.mark.parametrize("auth", SHAPES, ids=str)
@pytest.mark.parametrize("target_of", [postgres_target, nats_target])
def test_an_unknown_credential_shape_names_the_valid_ones_and_connects_to_nothing(target_of: Any, auth: Any) -> None:
    with pytest.raises(ToolError) as caught:
        target_of(auth, here())

    assert caught.value.kind == "keychain.unresolved"
    for shape in ("the name of a credential", "{credential: NAME}", "its fields"):
        assert shape in caught.value.message
    assert "localhost" not in caught.value.message


@pytest.mark.parametrize("auth", ["empty", {"credential": "empty"}, {"user": "ada", "password": PASSWORD}])
def test_a_credential_without_a_host_does_not_default_to_localhost(auth: Any) -> None:
    with pytest.raises(ToolError, match="does not say which server") as caught:
        postgres_target(auth, here())

    assert PASSWORD not in caught.value.message


@pytest.mark.parametrize("auth", ["absent", {"credential": "absent"}])
@pytest.mark.parametrize("target_of", [postgres_target, nats_target])
def test_a_missing_credential_is_named_in_the_error(target_of: Any, auth: Any) -> None:
    with pytest.raises(ToolError, match='"absent"'):
        target_of(auth, here())


@pytest.mark.parametrize(
    "auth",
    [
        "warehouse",
        {"credential": "warehouse"},
        {"type": "postgres", "credential": "warehouse"},
        {"host": "db", "user": "ada", "password": PASSWORD},
        {"type": "postgres", "data": {"db_host": "db", "db_user": "ada", "db_password": PASSWORD}},
        f"postgresql://ada:{PASSWORD}@db",
        {"dsn": f"postgres://ada:{PASSWORD}@db"},
        f"host=db user=ada password={PASSWORD}",
        f"host=db  user = ada password='{PASSWORD}' port=5432",
        {"connection_string": f"host=db user=ada password={PASSWORD}"},
    ],
    ids=str,
)
def test_every_shape_named_in_the_error_is_accepted(auth: Any) -> None:
    target = postgres_target(auth, here())

    assert (target.host, target.user, target.password, target.port) == ("db", "ada", PASSWORD, 5432)
    assert PASSWORD not in str(target)


ADDRESSES = [
    f"postgresql://ada:{PASSWORD}@127.0.0.1:1/d",
    f"postgresql://ada:{PASSWORD}@127.0.0.1:notaport/d",
    f"postgresql://ada:{PASSWORD}@[bad/d",
    f"postgresql://ada:a/{PASSWORD}@127.0.0.1/d",
    f"mysql://ada:{PASSWORD}@127.0.0.1/d",
    f"{PASSWORD}://127.0.0.1/d",
    f"ada:{PASSWORD}@127.0.0.1/d",
    f"host=127.0.0.1 port=1 password={PASSWORD}",
    f"host=127.0.0.1 port=x password='{PASSWORD}'",
    f"password={PASSWORD}",
    f"jdbc:postgresql://127.0.0.1:1/d?user=ada&password={PASSWORD}",
]


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize("auth", ADDRESSES)
@pytest.mark.parametrize("written", [str, lambda auth: {"dsn": auth}, lambda auth: {"credential": auth}])
@pytest.mark.parametrize("tool", [PostgresTool, DuckdbTool])
async def test_an_address_in_auth_is_never_shown(tool: Any, written: Any, auth: str) -> None:
    made = tool()
    try:
        outcome = await outcome_of(made, {"command": read("SELECT 1"), "auth": written(auth)}, resolve=known)
    finally:
        await made.close()

    assert outcome.error is not None
    assert PASSWORD not in str(outcome.error)
    assert PASSWORD not in repr(outcome)


@pytest.mark.parametrize("auth", ADDRESSES)
def test_an_address_in_auth_is_not_looked_up_as_a_name(auth: str) -> None:
    """A name is sent to the server and told in errors."""
    assert credential_name(auth) is None
    assert credential_name({"credential": auth}) is None


@pytest.mark.parametrize("name", ["warehouse", "team/pg", "pg-main.v2", "Große Kasse", "a:b"])
def test_a_credential_name_in_auth_is_looked_up(name: str) -> None:
    assert credential_name(name) == name
