"""The gate: nothing is reached but through a row of the table (reliability.md §2.3)."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest

from noetl.operations.administration_shapes import Role
from noetl.server.access.access import Rates, RequestRate
from tests.server.access.ground import Ground


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/catalog"),
        ("POST", "/api/catalog"),
        ("GET", "/api/forgotten"),
        ("GET", "/api/nothing"),
        ("GET", "/"),
        ("DELETE", "/api/catalog"),
        ("GET", "/hooks/00000000000000000000000000000000"),
        ("OPTIONS", "/api/session"),
    ],
)
async def test_an_anonymous_caller_gets_the_same_answer_for_every_path(method: str, path: str) -> None:
    """So that nobody learns which paths exist."""
    async with Ground().client() as stranger:
        answer = await stranger.request(method, path)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["detail"].startswith("show a token")
    assert "allow" not in answer.headers


async def test_a_route_without_a_row_is_closed_to_every_role() -> None:
    ground = Ground()
    for role in (Role.VIEWER, Role.ADMIN, Role.WORKER):
        async with await ground.as_(role) as caller:
            answer = await caller.get("/api/forgotten")

        assert answer.status_code == 403
        assert answer.json()["detail"] == f"your token has the role {role}; no role may send this request"


async def test_an_operator_may_run_but_not_register() -> None:
    ground = Ground()
    async with await ground.as_(Role.OPERATOR) as operator, await ground.as_(Role.AUTHOR) as author:
        refused, taken = await operator.post("/api/catalog"), await author.post("/api/catalog")

    assert (refused.status_code, taken.status_code) == (403, 200)
    assert refused.json()["detail"] == "your token has the role operator; it needs the role author"


async def test_an_authenticated_caller_gets_404_for_a_missing_route() -> None:
    async with await Ground().as_(Role.VIEWER) as viewer:
        missing, wrong = await viewer.get("/api/nothing"), await viewer.delete("/api/catalog")

    assert missing.status_code == 404
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8082", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:8082", 200),
        ("[::1]:8082", 200),
        ("noetl.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("localhost@evil.example", 421),
        ("evil.example:localhost", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.", 421),
        ("", 421),
        ("[::1", 421),
    ],
)
async def test_a_request_with_a_foreign_host_name_is_refused(host: str, status: int) -> None:
    """A page whose name was made to point at this machine still sends its own name."""
    async with await Ground().as_(Role.VIEWER) as viewer:
        assert (await viewer.get("/api/catalog", headers={"host": host})).status_code == status


async def test_a_request_with_two_host_headers_is_refused() -> None:
    async with await Ground().as_(Role.VIEWER) as viewer:
        answer = await viewer.get("/api/catalog", headers=[("host", "localhost"), ("host", "localhost")])

    assert answer.status_code == 400


async def test_every_response_has_the_security_headers_and_no_cors_headers() -> None:
    ground = Ground()
    async with await ground.as_(Role.VIEWER) as viewer, ground.client() as stranger:
        answers = [
            await viewer.get("/api/catalog", headers={"origin": "https://evil.example"}),
            await viewer.get("/api/nothing"),
            await stranger.get("/api/catalog"),
            await stranger.options("/api/catalog", headers={"access-control-request-method": "POST"}),
        ]

    for answer in answers:
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_responses_over_tls_have_an_hsts_header() -> None:
    async with Ground(tls=True).client() as stranger:
        assert "strict-transport-security" in (await stranger.get("/")).headers


async def test_a_stream_passes_the_gate_unchanged() -> None:
    async with await Ground().as_(Role.VIEWER) as viewer:
        answer = await viewer.get("/api/schema")

    assert answer.text == "first\nsecond\n"


async def test_a_stream_ends_when_its_token_is_no_longer_valid() -> None:
    ground = Ground()
    for age_s, text in ((1.0, "first\nsecond\n"), (15.0, "first\n")):
        async with await ground.as_(Role.VIEWER) as viewer:
            token = (await ground.access.tokens.list())[-1]

            async def revoked(token_id: str = token.token_id, age_s: float = age_s) -> None:
                ground.clock.advance(age_s)
                await ground.access.tokens.revoke(token_id)

            ground.between.happens = revoked
            assert (await viewer.get("/api/schema")).text == text


async def test_a_websocket_is_closed_before_it_is_accepted() -> None:
    ground, sent = Ground(), []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await ground.app({"type": "websocket", "path": "/api/catalog", "headers": []}, receive, send)

    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_wrong_tokens_are_rate_limited_and_right_ones_are_not() -> None:
    """A bucket by address would let one neighbour lock out all others; 256 bits need no such lock."""
    ground = Ground(rates=Rates(failures=RequestRate(3, 0.5)))
    wrong = {"authorization": "Bearer nothing"}
    async with ground.client() as stranger, await ground.as_(Role.VIEWER) as viewer:
        codes = [(await stranger.get("/api/catalog", headers=wrong)).status_code for _ in range(5)]
        slowed = await stranger.get("/api/catalog", headers=wrong)
        known = await viewer.get("/api/catalog")
        tokenless = await stranger.get("/api/catalog")
        ground.clock.advance(2.0)
        later = await stranger.get("/api/catalog", headers=wrong)

    assert codes == [401, 401, 401, 429, 429]
    assert (slowed.status_code, slowed.headers["retry-after"]) == (429, "2")
    assert (known.status_code, tokenless.status_code, later.status_code) == (200, 401, 401)


async def test_anonymous_callers_cannot_flood_the_audit_log() -> None:
    ground = Ground(rates=Rates(tokenless=RequestRate(5, 1)))
    async with ground.client() as stranger:
        codes = [(await stranger.get("/api/catalog")).status_code for _ in range(50)]

    assert codes == [401] * 5 + [429] * 45
    assert len(await ground.store.audit.onward(after=0)) == 1


async def test_every_caller_has_its_own_rate_limit() -> None:
    ground = Ground(rates=Rates(people=RequestRate(2, 1)))
    async with await ground.as_(Role.VIEWER) as hasty, await ground.as_(Role.OPERATOR) as other:
        codes = [(await hasty.get("/api/catalog")).status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        assert (await other.get("/api/catalog")).status_code == 200


@pytest.mark.parametrize("path", ["/api/catalog%0a", "/api/catalog%00", "/api/%1bcatalog"])
async def test_a_path_with_a_control_character_is_refused(path: str) -> None:
    async with await Ground().as_(Role.ADMIN) as admin:
        assert (await admin.get(path)).status_code == 400
