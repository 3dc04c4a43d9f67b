"""Tokens: opaque, shown once, stored as a hash; any other text than that of an active token is refused (reliability.md
§2.3)."""

from __future__ import annotations

import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import RefusedError
from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import KIND, AccessTokens, TokenRequest
from noetl.store.memory import MemoryStore
from tests.server.access.ground import Ground

VIEWER = TokenRequest(subject="ann", role=Role.VIEWER)


def made() -> tuple[AccessTokens, MemoryStore, ManualClock]:
    store, clock = MemoryStore(), ManualClock()
    return AccessTokens(store.key_values, clock), store, clock


@pytest.mark.req("HUM-02")
async def test_a_token_authenticates_and_its_secret_is_not_stored() -> None:
    tokens, store, _ = made()
    text, token = await tokens.create(TokenRequest(subject="ann", role=Role.OPERATOR, human_roles=("approver",)))

    found = await tokens.authenticate(text)

    assert found is not None
    assert found.identity.subject == "ann"
    assert found.identity.human_roles == {"approver"}
    secret = text.removeprefix(f"noetl_{token.token_id}_")
    assert len(secret) == 43  # 256 bits
    [thing] = await store.key_values.list(KIND)
    assert secret.encode() not in thing.body


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda text: "",
        lambda text: "nothing",
        lambda text: text[:-1],
        lambda text: text + "x",
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text.upper(),
        lambda text: " " + text,
        lambda text: text + "\n",
        lambda text: text.replace("noetl_", "other_"),
        lambda text: "_".join(text.split("_")[:2]) + "_",
        lambda text: "noetl_first_" + text.split("_", 2)[2],
        lambda text: text.replace("_", "__", 1),
        lambda text: "\ud800" + text,
    ],
)
async def test_a_truncated_or_altered_token_does_not_authenticate(spoilt: object) -> None:
    tokens, _, _ = made()
    text, _ = await tokens.create(VIEWER)

    assert callable(spoilt)
    assert await tokens.authenticate(spoilt(text)) is None


async def test_an_expired_or_revoked_token_does_not_authenticate() -> None:
    tokens, _, clock = made()
    short, _ = await tokens.create(TokenRequest(subject="ann", role=Role.VIEWER, expires_in_s=60))
    other, token = await tokens.create(VIEWER)

    await tokens.revoke(token.token_id)
    assert await tokens.authenticate(other) is None
    assert await tokens.authenticate(short) is not None
    clock.advance(60)
    assert await tokens.authenticate(short) is None


async def test_a_revocation_on_another_server_takes_effect_within_a_second() -> None:
    tokens, store, clock = made()
    text, token = await tokens.create(VIEWER)
    assert await tokens.authenticate(text) is not None

    await AccessTokens(store.key_values, clock).revoke(token.token_id)
    clock.advance(1.0)

    assert await tokens.authenticate(text) is None


async def test_the_last_use_on_this_server_is_shown_to_the_second() -> None:
    tokens, _, clock = made()
    text, _ = await tokens.create(VIEWER)
    await tokens.authenticate(text)
    clock.advance(100)
    await tokens.authenticate(text)

    assert [one.used_at for one in await tokens.list()] == [clock.now()]


async def test_the_last_use_is_stored_coarsely() -> None:
    tokens, store, clock = made()
    text, token = await tokens.create(VIEWER)
    for _ in range(3):
        await tokens.authenticate(text)
    thing = await store.key_values.get(KIND, token.token_id)
    assert thing is not None
    assert thing.version == 2

    clock.advance(3_600)
    await tokens.authenticate(text)
    assert [one.used_at for one in await tokens.list()] == [clock.now()]


async def test_a_token_with_an_unknown_role_does_not_authenticate() -> None:
    tokens, store, clock = made()
    text, token = await tokens.create(VIEWER)
    raw = msgspec.json.decode(msgspec.json.encode(token)) | {"role": "superuser"}
    await store.key_values.put(KIND, token.token_id, msgspec.json.encode(raw), over=1, at=clock.now())

    assert await tokens.authenticate(text) is None


async def test_the_first_start_creates_one_administrator_token() -> None:
    tokens, store, clock = made()

    text = await tokens.create_first_admin()

    assert text is not None
    found = await tokens.authenticate(text)
    assert found is not None
    assert found.role is Role.ADMIN
    assert await tokens.create_first_admin() is None
    await tokens.create(
        TokenRequest(subject="another", role=Role.ADMIN)
    )  # the last administrator's token cannot be revoked
    await tokens.revoke(found.token_id)
    assert await AccessTokens(store.key_values, clock).create_first_admin() is None


async def test_an_administrator_token_is_created_even_after_a_worker_token() -> None:
    tokens, _, _ = made()
    await tokens.create(TokenRequest(subject="workers", role=Role.WORKER, pools=("default",)))

    text = await tokens.create_first_admin()

    assert text is not None
    assert await tokens.create_first_admin() is None


async def test_one_of_two_servers_that_start_together_creates_the_first_token() -> None:
    tokens, store, clock = made()

    assert await tokens._store("first", VIEWER) is not None
    assert await AccessTokens(store.key_values, clock)._store("first", VIEWER) is None


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (TokenRequest(subject="ann", role=Role.NOBODY), 'role "nobody"'),
        (TokenRequest(subject="", role=Role.VIEWER), "is not a valid name"),
        (TokenRequest(subject="a\nb", role=Role.VIEWER), "is not a valid name"),
        (TokenRequest(subject="w", role=Role.WORKER), "names the pools"),
        (TokenRequest(subject="w", role=Role.WORKER, pools=("p",), human_roles=("r",)), "are for people"),
        (TokenRequest(subject="ann", role=Role.VIEWER, pools=("p",)), "are for workers"),
        (TokenRequest(subject="ann", role=Role.VIEWER, expires_in_s=0), "in the future"),
    ],
)
async def test_an_invalid_token_request_raises_a_refusal(wanted: TokenRequest, says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        await made()[0].create(wanted)


async def test_administrators_create_list_and_revoke_tokens_over_http() -> None:
    ground = Ground()
    async with await ground.as_(Role.ADMIN) as admin:
        answer = await admin.post("/api/tokens", json={"subject": "ann", "role": "viewer", "expires_in_s": 3600})
        assert answer.status_code == 201
        text, token_id = answer.json()["token"], answer.json()["token_id"]
        assert answer.json()["expires_at"] == "2025-01-01T01:00:00.000000Z"
        listed = await admin.get("/api/tokens")
        assert text.split("_", 2)[2] not in listed.text
        assert "secret" not in listed.text
        assert {one["subject"] for one in listed.json()["tokens"]} == {"ann", "a admin"}

        async with ground.client(authorization=f"Bearer {text}") as ann:
            assert (await ann.get("/api/session")).json()["subject"] == "ann"
            assert (await admin.delete(f"/api/tokens/{token_id}")).json()["revoked_at"] is not None
            assert (await ann.get("/api/session")).status_code == 401
        assert (await admin.delete("/api/tokens/unknown")).status_code == 404
        for body in ({"subject": "x", "role": "nobody"}, {"subject": "x", "role": "root"}, {"subject": "x"}, {"a": 1}):
            assert (await admin.post("/api/tokens", json=body)).status_code == 422


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer nothing", "Basic YTpi", "", "bearer\tx", "Token x"])
async def test_any_other_authorization_is_refused(header: str) -> None:
    """`Bearer nothing` was accepted elsewhere once (CVE-2026-28229)."""
    async with Ground().client(authorization=header) as caller:
        assert (await caller.get("/api/catalog")).status_code == 401


async def test_a_request_with_two_identities_is_refused() -> None:
    ground = Ground()
    good = f"Bearer {await ground.token(Role.ADMIN)}"
    async with ground.client() as caller:
        for headers in (
            [("authorization", good), ("authorization", good)],
            [("authorization", good), ("cookie", "noetl_session=x")],
            [("cookie", "noetl_session=x; noetl_session=y")],
        ):
            assert (await caller.get("/api/catalog", headers=headers)).status_code == 401


CHOSEN = "noetl_worker_" + "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
WORKER = TokenRequest(subject="workers", role=Role.WORKER, pools=("default",))


async def test_a_chosen_token_is_stored_once_and_its_permissions_can_change() -> None:
    tokens, store, _ = made()
    first = await tokens.adopt(CHOSEN, WORKER)

    again = await tokens.adopt(CHOSEN, WORKER)
    more = await tokens.adopt(CHOSEN, msgspec.structs.replace(WORKER, pools=("gpu", "default")))

    assert again == first
    assert more.pools == ("default", "gpu")
    assert (await tokens.authenticate(CHOSEN)) is not None
    [thing] = await store.key_values.list(KIND)
    assert CHOSEN.rpartition("_")[2].encode() not in thing.body


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("secret", "this is not a token"),
        ("noetl_worker_short", "this is not a token"),
        ("noetl_Worker_" + "a" * 43, "this is not a token"),
        ("noetl_worker_" + "a" * 43, "could be guessed"),
    ],
)
async def test_an_invalid_or_guessable_chosen_token_is_refused(text: str, says: str) -> None:
    tokens, _, _ = made()

    with pytest.raises(RefusedError, match=says):
        await tokens.adopt(text, WORKER)


async def test_a_chosen_token_cannot_replace_another_or_be_used_after_revocation() -> None:
    tokens, _, _ = made()
    await tokens.adopt(CHOSEN, WORKER)

    with pytest.raises(RefusedError, match='another token "worker"'):
        await tokens.adopt(CHOSEN[:-1] + "H", WORKER)
    await tokens.revoke("worker")
    with pytest.raises(RefusedError, match="was revoked"):
        await tokens.adopt(CHOSEN, WORKER)
