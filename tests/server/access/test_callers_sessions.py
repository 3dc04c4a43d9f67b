"""Sessions of browsers: a cookie no script can read, and changes only from pages of this server (reliability.md
§2.3)."""

from __future__ import annotations

import httpx2
import pytest

from noetl.base.clock import rfc3339
from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from noetl.server.access.access import Rates, RequestRate
from noetl.server.access.callers import IDLE_S, KIND, WHOLE_S
from noetl.store.installation import KeyValue
from tests.server.access.ground import Ground

OWN = {"origin": "http://localhost"}


async def signed_in(ground: Ground, role: Role = Role.AUTHOR) -> tuple[httpx2.AsyncClient, dict[str, str]]:
    """A browser with a session, and the headers its pages send with a change."""
    browser = ground.client()
    answer = await browser.post("/api/session", json={"token": await ground.token(role)}, headers=OWN)
    assert answer.status_code == 201
    return browser, {**OWN, "noetl-csrf": answer.json()["csrf"]}


async def test_a_token_opens_a_session_with_a_cookie_hidden_from_scripts() -> None:
    ground = Ground()
    async with ground.client() as browser:
        answer = await browser.post("/api/session", json={"token": await ground.token(Role.VIEWER)})
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("noetl_session=")
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert "Secure" not in cookie

        me = await browser.get("/api/session")
        assert me.json() == answer.json()
        assert (await browser.get("/api/catalog")).status_code == 200
        assert (await browser.post("/api/catalog", headers=OWN)).status_code == 403


async def test_over_tls_the_cookie_is_secure_only() -> None:
    ground = Ground(tls=True)
    async with ground.client() as browser:
        answer = await browser.post("/api/session", json={"token": await ground.token(Role.VIEWER)})

    assert "Secure" in answer.headers["set-cookie"]
    assert "Domain" not in answer.headers["set-cookie"]
    assert answer.headers["set-cookie"].startswith("__Host-noetl_session=")


async def test_over_tls_a_cookie_that_another_host_could_have_set_signs_nobody_in() -> None:
    ground = Ground(tls=True)
    async with ground.client() as attacker:
        answer = await attacker.post("/api/session", json={"token": await ground.token(Role.VIEWER)})
    session_id = answer.headers["set-cookie"].partition(";")[0].partition("=")[2]

    # A page of a sibling domain can set a cookie for the domain of both, but none whose name begins with "__Host-".
    async with ground.client(cookie=f"noetl_session={session_id}") as reader:
        assert (await reader.get("/api/session")).status_code == 401
    async with ground.client(cookie=f"__Host-noetl_session={session_id}; noetl_session=other") as reader:
        assert (await reader.get("/api/session")).status_code == 200


async def test_the_session_id_is_stored_as_a_hash() -> None:
    ground = Ground()
    browser, _ = await signed_in(ground)
    session_id = browser.cookies["noetl_session"]

    [thing] = await ground.store.key_values.list(KIND)

    assert isinstance(thing, KeyValue)
    assert session_id not in thing.name
    assert session_id.encode() not in thing.body


async def test_a_change_requires_the_csrf_value_and_the_own_origin() -> None:
    ground = Ground()
    browser, own = await signed_in(ground)
    other, theirs = await signed_in(ground)
    csrf = own["noetl-csrf"]
    wrong: list[list[tuple[str, str]]] = [
        [],
        [("origin", "http://localhost")],
        [("noetl-csrf", csrf)],
        [("noetl-csrf", csrf), ("origin", "http://evil.example")],
        [("noetl-csrf", csrf), ("origin", "null")],
        [("noetl-csrf", csrf), ("origin", "https://localhost")],
        [("noetl-csrf", csrf), ("origin", "http://localhost:3000")],
        [("noetl-csrf", csrf), ("origin", "http://localhost"), ("origin", "http://localhost")],
        [("noetl-csrf", csrf), ("noetl-csrf", csrf), ("origin", "http://localhost")],
        [("noetl-csrf", csrf[:-1]), ("origin", "http://localhost")],
        [("noetl-csrf", ""), ("origin", "http://localhost")],
        [("noetl-csrf", theirs["noetl-csrf"]), ("origin", "http://localhost")],
    ]
    for headers in wrong:
        answer = await browser.post("/api/catalog", headers=headers)
        assert answer.status_code == 403, headers
        assert "Noetl-CSRF" in answer.json()["detail"]

    assert (await browser.post("/api/catalog", headers=own)).status_code == 200
    await other.aclose()
    await browser.aclose()


async def test_signing_in_from_another_origin_is_refused() -> None:
    """Otherwise such a page could have the visitor work under the attacker's name."""
    ground = Ground()
    async with ground.client() as browser:
        body = {"token": await ground.token(Role.VIEWER)}
        answer = await browser.post("/api/session", json=body, headers={"origin": "http://evil.example"})

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_a_cross_site_form_cannot_sign_in() -> None:
    ground = Ground()
    async with ground.client() as browser:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = await browser.post("/api/session", content=b'{"token": "x"}', headers={"content-type": kind})
            assert answer.status_code == 415


@pytest.mark.parametrize("token", ["", "nothing", "noetl_first_" + "A" * 43])
async def test_a_wrong_token_opens_no_session(token: str) -> None:
    async with Ground().client() as browser:
        answer = await browser.post("/api/session", json={"token": token})

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


async def test_wrong_tokens_at_sign_in_are_rate_limited() -> None:
    ground = Ground(rates=Rates(failures=RequestRate(2, 0.5)))
    async with ground.client() as browser:
        codes = [(await browser.post("/api/session", json={"token": "x"})).status_code for _ in range(3)]

    assert codes == [401, 401, 429]


async def test_a_worker_token_cannot_open_a_session() -> None:
    ground = Ground()
    async with ground.client() as browser:
        answer = await browser.post("/api/session", json={"token": await ground.token(Role.WORKER)})

    assert answer.status_code == 403


async def test_signing_out_ends_the_session() -> None:
    ground = Ground()
    browser, own = await signed_in(ground)
    kept = browser.cookies["noetl_session"]

    assert (await browser.delete("/api/session", headers=own)).status_code == 204
    assert await ground.store.key_values.list(KIND) == []
    async with ground.client(cookie=f"noetl_session={kept}") as thief:
        assert (await thief.get("/api/session")).status_code == 401
    await browser.aclose()


async def test_a_session_ends_when_idle_and_at_its_maximum_age() -> None:
    ground = Ground()
    browser, _ = await signed_in(ground)
    begun = ground.clock.now()
    while ground.clock.now() - begun + IDLE_S / 2 < WHOLE_S:
        ground.clock.advance(IDLE_S / 2)
        assert (await browser.get("/api/session")).status_code == 200
    ground.clock.advance(IDLE_S / 2)
    assert (await browser.get("/api/session")).status_code == 401

    idle, _ = await signed_in(ground)
    ground.clock.advance(IDLE_S)
    assert (await idle.get("/api/session")).status_code == 401
    assert [thing for thing in await ground.store.key_values.list(KIND) if thing.updated_at > ground.clock.now()] == []
    await idle.aclose()
    await browser.aclose()


async def test_a_session_ends_with_its_token() -> None:
    ground = Ground()
    browser, _ = await signed_in(ground)
    [token] = await ground.access.tokens.list()

    await ground.access.tokens.revoke(token.token_id)

    assert (await browser.get("/api/session")).status_code == 401
    await browser.aclose()


async def test_expired_sessions_are_deleted_when_a_new_one_opens() -> None:
    ground = Ground()
    old, _ = await signed_in(ground)
    ground.clock.advance(IDLE_S * 2)
    new, _ = await signed_in(ground)

    assert len(await ground.store.key_values.list(KIND)) == 1
    await old.aclose()
    await new.aclose()


async def test_a_token_request_has_no_session_to_end() -> None:
    async with await Ground().as_(Role.VIEWER) as viewer:
        assert (await viewer.delete("/api/session")).status_code == 409
        assert (await viewer.get("/api/session")).json()["csrf"] is None


async def test_an_administrator_lists_and_ends_sessions() -> None:
    ground = Ground()
    browser, _ = await signed_in(ground)
    admin, own = await signed_in(ground, Role.ADMIN)

    sessions = (await admin.get("/api/sessions")).json()["sessions"]
    told = {one["role"]: one for one in sessions}
    assert (told["admin"]["is_own"], told["author"]["is_own"]) == (True, False)
    assert browser.cookies["noetl_session"] not in str(sessions)
    assert (await browser.get("/api/sessions")).status_code == 403

    gone = f"/api/sessions/{told['author']['session_key']}"
    assert (await admin.delete(gone)).status_code == 403  # without the value that only own pages can read
    assert (await admin.delete(gone, headers=own)).status_code == 204
    assert (await browser.get("/api/session")).status_code == 401
    assert (await admin.get("/api/session")).status_code == 200
    assert (await admin.delete(gone, headers=own)).status_code == 404


async def test_a_listed_session_shows_its_expiry_and_last_use() -> None:
    ground = Ground()
    text, _ = await ground.access.tokens.create(TokenRequest(subject="ann", role=Role.ADMIN, expires_in_s=3_600.0))
    browser = ground.client(origin="http://localhost")
    assert (await browser.post("/api/session", json={"token": text})).status_code == 201
    ground.clock.advance(90)  # less than the time after which the last use is stored again

    (session,) = (await browser.get("/api/sessions")).json()["sessions"]

    assert session["expires_at"] == rfc3339(ground.clock.now() - 90 + 3_600)
    assert session["last_seen"] == rfc3339(ground.clock.now())
