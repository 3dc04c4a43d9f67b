"""Resolvers: each kind finds what its entry stands for, and says what is missing without telling what it found."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.addresses.policy import UNGUARDED
from noetl.base.clock import ManualClock
from noetl.base.errors import ToolError
from noetl.events.secret_materials import Material
from noetl.language.grammar.root import KEYCHAIN_KINDS
from noetl.net.net import KeychainEntry
from noetl.secrets.contract import BUILT_IN, Sources
from noetl.secrets.keychain import Keychain, open_keychain, read_file
from noetl.secrets.token_requests import TokenRequests
from noetl.secrets.vault import Vault
from noetl.store.installation import MemoryCredentials
from tests.secrets.vaults import Endpoint, entry, new_keychain, new_vault
from tests.servers.http import HttpServer, reply


def test_the_checker_accepts_the_built_in_kinds() -> None:
    assert set(KEYCHAIN_KINDS) == set(BUILT_IN)


async def resolved(one: KeychainEntry, **sources: Any) -> Material:
    return await new_keychain(**sources).material((one,), one.name)


async def filled() -> Vault:
    vault = new_vault()
    await vault.set("token", "t0ken-value", kind="bearer")
    await vault.set("plain", "plain-value", kind="text")
    await vault.set("pg", {"dsn": "postgresql://app:pa55word@db/x"}, kind="postgres")
    await vault.set("login", {"username": "ann", "password": "hunter22"}, kind="basic")
    client = {"token_url": "https://id/token", "client_id": "me", "client_secret": "client-s3cret"}
    await vault.set("client", client, kind="oauth2")
    return vault


TOKEN = {"access_token": "granted-token", "token_type": "Bearer", "expires_in": 3600}


@pytest.mark.req("KEY-07")
@pytest.mark.parametrize(
    ("one", "fields"),
    [
        (entry("api", "env", var="API_KEY"), {"value": "from the environment"}),
        (entry("api_key", "env"), {"value": "from the environment"}),
        (entry("pair", "env", map={"user": "A_USER", "password": "API_KEY"}), {"user": "ann"}),
        (entry("obj", "env", var="AN_OBJECT", format="json"), {"a": 1}),
        (entry("obj", "env", var="AN_OBJECT"), {"value": '{"a": 1}'}),
        (entry("f", "file", path="/run/secrets/t"), {"value": "file-secret"}),
        (entry("f", "file", path="/run/secrets/o"), {"password": "in json"}),
        (entry("f", "file", path="/run/secrets/o", format="text"), {"value": '{"password": "in json"}'}),
        (entry("s", "static", value="for tests"), {"value": "for tests"}),
        (entry("s", "static", value={"a": "b"}), {"a": "b"}),
        (entry("plain", "credential"), {"value": "plain-value"}),
        (entry("mine", "credential", credential="plain"), {"value": "plain-value"}),
        (entry("mine", "credential", auth="plain"), {"value": "plain-value"}),
        (entry("mine", "credential", credential="login", field="password"), {"value": "hunter22"}),
        (entry("plain", "secret_manager"), {"value": "plain-value"}),
        (entry("both", "secret_manager", map={"one": "plain", "two": "token"}), {"one": "plain-value"}),
        (entry("pg", "postgres_credential"), {"dsn": "postgresql://app:pa55word@db/x"}),
        (entry("orders", "postgres_credential", auth="pg"), {"dsn": "postgresql://app:pa55word@db/x"}),
        (entry("token", "bearer"), {"token": "t0ken-value", "authorization": "Bearer t0ken-value"}),
        (entry("b", "bearer", env="API_KEY"), {"authorization": "Bearer from the environment"}),
        (entry("b", "bearer", token={"file": "/run/secrets/t"}), {"value": "file-secret"}),
        (entry("b", "bearer", token={"credential": "login", "field": "password"}), {"value": "hunter22"}),
        (entry("login", "basic"), {"authorization": "Basic YW5uOmh1bnRlcjIy"}),
        (entry("b", "basic", username="ann", password={"env": "API_KEY"}), {"password": "from the environment"}),
        (entry("b", "basic", username="bob", auth="plain"), {"username": "bob", "password": "plain-value"}),
        (entry("client", "oauth2"), {"access_token": "granted-token", "authorization": "Bearer granted-token"}),
        (entry("o", "oauth2", auth="client", scope="read"), {"value": "granted-token"}),
        (entry("c", "credential", credential="client"), {"value": "granted-token"}),
        (entry("renamed", "credential", credential="login", map={"user": "username"}), {"user": "ann"}),
    ],
    ids=lambda value: f"{value.kind} {value.lookup}" if isinstance(value, KeychainEntry) else "",
)
async def test_each_kind_resolves_its_value(one: KeychainEntry, fields: dict[str, Any]) -> None:
    found = await resolved(
        one,
        vault=await filled(),
        environment={"API_KEY": "from the environment", "A_USER": "ann", "AN_OBJECT": '{"a": 1}'},
        files={"/run/secrets/t": "file-secret\n", "/run/secrets/o": '{"password": "in json"}'},
        endpoint=Endpoint((200, TOKEN)),
    )

    assert fields.items() <= found.fields.items()


@pytest.mark.req("KEY-02", "KEY-07")
@pytest.mark.parametrize(
    ("one", "says"),
    [
        (entry("api", "env", var="NOWHERE"), "no variable NOWHERE"),
        (entry("f", "file"), "names no file"),
        (entry("f", "file", path="/none"), "the file /none cannot be read"),
        (entry("f", "file", path="/empty"), "is empty"),
        (entry("s", "static"), "has no value"),
        (entry("gone", "credential"), "noetl credential set gone"),
        (entry("plain", "credential", version=7), "version 7"),
        (entry("plain", "credential", version="x"), "is not a number"),
        (entry("plain", "credential", field="nope"), 'no field "nope"'),
        (entry("plain", "postgres_credential"), "postgresql://"),
        (entry("x", "secret_manager", provider="gcp"), 'secret manager "gcp" is reached through a plug-in'),
        (entry("x", "hologram"), "built in are env, file"),
        (entry("plain", "basic"), "user:password"),
        (entry("x", "bearer", token=["a"]), "token is text, or one of"),
        (entry("x", "oauth2", client_id="a", client_secret="b"), "token_url is missing"),
        (entry("client", "oauth2"), "gave no token (status 401, invalid_client)"),
        (entry("m", "credential", credential="login", map={"a": "nope"}), 'map names the field "nope"'),
    ],
    ids=lambda value: f"{value.kind} {value.lookup}" if isinstance(value, KeychainEntry) else "",
)
async def test_an_unresolvable_entry_is_reported_with_its_name_and_reason(one: KeychainEntry, says: str) -> None:
    with pytest.raises(ToolError) as problem:
        await resolved(
            one,
            vault=await filled(),
            files={"/empty": "\n"},
            endpoint=Endpoint((401, {"error": "invalid_client", "error_description": "client-s3cret is wrong"})),
        )

    assert problem.value.kind == "keychain.unresolved"
    assert f'keychain entry "{one.name}" ({one.kind})' in problem.value.message
    assert says in problem.value.message
    for secret in ("plain-value", "hunter22", "client-s3cret", "pa55word"):
        assert secret not in problem.value.message


@pytest.mark.req("KEY-05")
async def test_a_keychain_entry_takes_precedence_over_a_stored_credential() -> None:
    keychain = new_keychain(vault=await filled())
    declared = (entry("plain", "static", value="declared here"),)

    assert (await keychain.material(declared, "plain")).text_or_fields() == "declared here"
    assert (await keychain.material(declared, "token")).text_or_fields() == "t0ken-value"
    with pytest.raises(ToolError, match='"nobody" is neither in the keychain nor a stored credential'):
        await keychain.material(declared, "nobody")


class Fake:
    """`v1`, then `v2`, and so on: a new value each time it is asked."""

    def __init__(self, refresh_after: float | None = None) -> None:
        self._refresh_after = refresh_after
        self.asked = 0

    async def resolve(self, one: KeychainEntry, sources: Sources) -> Material:
        self.asked += 1
        after = sources.clock.now() + self._refresh_after if self._refresh_after else None
        return Material(fields={"value": f"v{self.asked}"}, refresh_after=after)


@pytest.mark.req("KEY-04")
async def test_an_entry_with_refresh_after_is_resolved_again_only_then() -> None:
    clock, fake = ManualClock(), Fake(refresh_after=60)
    keychain = new_keychain(clock=clock, resolvers={"fake": fake})
    one = (entry("f", "fake"),)

    assert [(await keychain.material(one, "f")).text_or_fields() for _ in range(3)] == ["v1", "v1", "v1"]
    clock.advance(61)

    assert (await keychain.material(one, "f")).text_or_fields() == "v2"


@pytest.mark.req("KEY-04")
async def test_a_refresh_takes_effect_at_once() -> None:
    keychain = new_keychain(resolvers={"fake": Fake(refresh_after=60)})
    one = (entry("f", "fake"),)
    assert (await keychain.material(one, "f")).text_or_fields() == "v1"

    assert (await keychain.refreshed(one, "f")).text_or_fields() == "v2"

    assert (await keychain.material(one, "f")).text_or_fields() == "v2"


@pytest.mark.req("KEY-02")
async def test_a_material_without_an_expiry_is_not_cached() -> None:
    fake = Fake()
    keychain = new_keychain(resolvers={"fake": fake})

    assert await keychain.missing((entry("f", "fake"),), ()) is None
    await keychain.material((entry("f", "fake"),), "f")

    assert fake.asked == 2


@pytest.mark.req("VAL-21", "KEY-02")
async def test_missing_credentials_are_reported_before_the_start() -> None:
    keychain = new_keychain(vault=await filled())

    assert await keychain.missing((entry("plain", "credential"),), ("plain", "pg")) is None
    entry_problem = await keychain.missing((entry("gone", "credential"),), ())
    name_problem = await keychain.missing((), ("pg", "pg_x"))

    assert entry_problem is not None
    assert '"gone"' in entry_problem.message
    assert name_problem is not None
    assert name_problem.details["code"] == "E_KEYCHAIN"
    assert '"pg_x"' in name_problem.message


@pytest.mark.req("KEY-06")
async def test_a_value_too_short_to_be_masked_is_warned_about_by_the_name_of_its_entry(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A promise that cannot be kept is not made."""
    keychain = new_keychain(environment={"PIN": "1234", "LONG": "long enough"})

    await keychain.missing((entry("pin", "env"), entry("long", "env")), ())

    [warning] = [record.getMessage() for record in caplog.records if record.name.startswith("noetl")]
    assert '"pin"' in warning
    assert "1234" not in warning


async def test_a_failing_plug_in_is_reported_by_its_exception_name_only() -> None:
    """Its words may hold what it found."""

    class Broken:
        async def resolve(self, one: KeychainEntry, sources: Sources) -> Material:
            raise ValueError("the secret hunter22 is odd")

    with pytest.raises(ToolError, match="failed with ValueError") as problem:
        await resolved(entry("x", "broken"), resolvers={"broken": Broken()})

    assert "hunter22" not in problem.value.message


@pytest.mark.req("KEY-04")
async def test_a_token_is_fetched_over_http_and_renewed_before_it_expires() -> None:
    answers = [reply(json={"access_token": f"token-{n}", "expires_in": 600}) for n in (1, 2)]
    clock, vault = ManualClock(), new_vault()
    async with HttpServer({"POST /token": answers}) as server:
        client = {"token_url": f"{server.url}/token", "client_id": "me", "client_secret": "s3cret!"}
        await vault.set("client", client, kind="oauth2")
        sources = Sources(environment={}, vault=vault, clock=clock, read_file=read_file, post=TokenRequests(UNGUARDED))
        keychain = Keychain(sources)
        one = (entry("o", "oauth2", auth="client", scope=["a", "b"]),)

        first = await keychain.material(one, "o")
        again = await keychain.material(one, "o")
        clock.advance(541)  # a minute before the end
        renewed = await keychain.material(one, "o")

    assert (first.text_or_fields(), again.text_or_fields(), renewed.text_or_fields()) == (
        "token-1",
        "token-1",
        "token-2",
    )
    assert len(server.requests) == 2
    asked = server.requests[0]
    assert asked.body == b"grant_type=client_credentials&scope=a+b"
    assert asked.headers["authorization"] == "Basic bWU6czNjcmV0IQ=="


async def test_an_unreachable_token_endpoint_is_named_without_the_secret() -> None:
    async with HttpServer({"*": reply(drop=True)}) as server:
        url = server.url.replace("://", "://user:pass@") + "/token?x=1"
        keychain = open_keychain(MemoryCredentials(), ManualClock())
        one = entry("o", "oauth2", token_url=url, client_id="me", client_secret="s3cret!")
        with pytest.raises(ToolError, match="did not answer") as problem:
            await keychain.material((one,), "o")

    assert "pass" not in problem.value.message
    assert "s3cret" not in problem.value.message


@pytest.mark.req("KEY-07")
async def test_an_embedded_keychain_reads_environment_variables_but_not_noetl_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "from the process")
    monkeypatch.setenv("NOETL_MASTER_KEY", "never")
    keychain = open_keychain(MemoryCredentials(), ManualClock())

    found = await keychain.material((entry("a", "env", var="SOME_API_KEY"),), "a")

    assert found.text_or_fields() == "from the process"
    with pytest.raises(ToolError, match="no variable NOETL_MASTER_KEY"):
        await keychain.material((entry("a", "env", var="NOETL_MASTER_KEY"),), "a")


@pytest.mark.parametrize("odd", ["caf\udce9", object()])
async def test_a_resolver_must_return_plain_text(odd: object) -> None:
    class Odd:
        async def resolve(self, one: KeychainEntry, sources: Sources) -> Material:
            return Material(fields={"value": odd})

    with pytest.raises(ToolError, match="not plain data in UTF-8"):
        await resolved(entry("x", "odd"), resolvers={"odd": Odd()})


def test_a_material_is_printed_without_its_values() -> None:
    assert repr(Material(fields={"password": "hunter22"})) == "Material(password)"
