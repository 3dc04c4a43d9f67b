"""Every route of the live application × every kind of caller × tricks with paths: as declared (F17, P14).

The routes are read from the application, so that one which is added without a row of the table fails here by its name.
What is expected is worked out anew from the table, by patterns of this module's own.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
import pytest_asyncio
from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import iter_route_contexts

from noetl.base.clock import ManualClock
from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from noetl.server import guarded_router
from noetl.server.access.access import Access, Rates, RequestRate
from noetl.server.access.roles import RULES, AccessRule
from noetl.server.app import build
from noetl.server.configuration import ServerSettings
from noetl.server.guarded_router import guard
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import make_services
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from tests.volume import one_in

REACHED = 418
RANK = {"viewer": 1, "operator": 2, "author": 3, "admin": 4}
UNKNOWN = ("none", "bad", "other scheme", "expired", "revoked", "two", "stale session")
CALLERS = (*UNKNOWN, "viewer", "operator", "author", "admin", "worker", "approver", "session")
PLENTY = RequestRate(1e9, 1e9)


async def reached(request: Request) -> None:
    """In the place of what every route begins with: the real guard, and then no further."""
    await guard(request)
    raise ProblemDetails(REACHED, "reached")


def app_over(store: MemoryStore, clock: ManualClock) -> FastAPI:
    services = make_services(ServerSettings(), store, MemoryResults(), clock=clock)
    rates = Rates(people=PLENTY, workers=PLENTY, anonymous=PLENTY, tokenless=PLENTY, failures=PLENTY, webhooks=PLENTY)
    services.access = Access(services.store, clock, rates=rates)
    return build(services)


@cache
def routes() -> tuple[tuple[str, str], ...]:
    """Method and template of every route there is."""
    app = app_over(MemoryStore(), ManualClock())
    found = []
    for route in iter_route_contexts(app.routes):
        methods = sorted(route.methods) if route.methods else ["GET"]
        template = f"{route.path}" if route.methods else f"{route.path}/{{path:path}}"
        found += [(method, template) for method in methods if method != "HEAD" or "GET" not in methods]
    return tuple(found)


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert set(routes()) - set(RULES) == set(), "routes nobody may ask: give them rows in server/access/roles.py"
    assert set(RULES) - set(routes()) == set(), "rows without a route"


def test_the_matrix_has_routes_of_every_kind() -> None:
    """So that the matrix is not green for want of anything to look at."""
    assert len(routes()) >= 50
    for template in (
        "/metrics",
        "/openapi.json",
        "/openapi",
        "/docs",
        "/api/stream",
        "/api/orders/turn",
        "/hooks/{hook_id}",
    ):
        assert any(one == template for _, one in routes())


class Live:
    """The application with a caller of every kind."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.app = app_over(MemoryStore(), self.clock)
        self.access: Access = self.app.state.access
        self.headers: dict[str, list[tuple[bytes, bytes]]] = {}

    async def fill(self) -> None:
        tokens = self.access.tokens
        short, _ = await tokens.create(TokenRequest(subject="x", role=Role.ADMIN, expires_in_s=1))
        gone, row = await tokens.create(TokenRequest(subject="x", role=Role.ADMIN))
        stale = await self.access.sessions.open(row)
        await tokens.revoke(row.token_id)
        self.clock.advance(2)
        self.headers = {
            "none": [],
            "bad": [_bearer("noetl_first_" + "A" * 43)],
            "other scheme": [(b"authorization", b"Basic YWRtaW46YWRtaW4=")],
            "expired": [_bearer(short)],
            "revoked": [_bearer(gone)],
            "stale session": [(b"cookie", f"noetl_session={stale}".encode())],
        }
        for role in RANK:
            text, token = await tokens.create(TokenRequest(subject=role, role=Role(role)))
            self.headers[role] = [_bearer(text)]
        self.headers["two"] = [*self.headers["admin"], *self.headers["viewer"]]
        session_id = await self.access.sessions.open(token)  # an administrator's, without what a change needs
        self.headers["session"] = [(b"cookie", f"noetl_session={session_id}".encode())]
        text, _ = await tokens.create(TokenRequest(subject="w", role=Role.WORKER, pools=("default",)))
        self.headers["worker"] = [_bearer(text)]
        text, _ = await tokens.create(TokenRequest(subject="a", role=Role.VIEWER, human_roles=("approver",)))
        self.headers["approver"] = [_bearer(text)]

    async def ask(self, caller: str, method: str, raw: str, *more: tuple[bytes, bytes]) -> int:
        path, _, query = raw.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost"), *self.headers[caller], *more],
            "client": ("192.0.2.7", 1),
            "server": ("localhost", 80),
        }
        statuses: list[int] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        await self.app(scope, receive, send)
        return statuses[0]


def _bearer(text: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {text}".encode()


@pytest_asyncio.fixture
async def live(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Live]:
    monkeypatch.setattr(guarded_router, "guard", reached)
    one = Live()
    await one.fill()
    yield one


def pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"(\{[^}]+\})", template)
    return re.compile("".join(_part(part) for part in parts) + r"\Z", re.S)


def _part(part: str) -> str:
    if not part.startswith("{"):
        return re.escape(part)
    return "(?s:.*)" if part.endswith(":path}") else "[^/]+"


@cache
def patterns() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple((method, template, pattern(template)) for method, template in routes())


def expected(caller: str, method: str, raw: str) -> set[int]:
    path = unquote(raw.partition("?")[0])
    if not path.isprintable():
        return {400}
    asked = "GET" if method == "HEAD" else method
    fitting = [(m, template) for m, template, one in patterns() if one.match(path)]
    row = next((RULES.get((m, template), AccessRule()) for m, template in fitting if m == asked), None)
    if method == "HEAD" and row is not None and not row.is_public:
        return {401} if caller in UNKNOWN else {405}
    if row is not None and row.is_public:
        return {401, 405} if method == "HEAD" else {REACHED}
    if caller in UNKNOWN:
        return {401}
    if row is None:
        return {404, 405}
    role = {"approver": "viewer", "session": "admin"}.get(caller, caller)
    if Role(role) not in row.roles and not (caller == "approver" and row.takes_human_roles):
        return {403}
    return {403} if caller == "session" and method not in ("GET", "HEAD") else {REACHED}


def filled(template: str) -> str:
    return re.sub(r"\{\w+:path\}", "some/where", re.sub(r"\{\w+\}", "some", template))


async def test_every_route_is_open_to_exactly_the_roles_of_the_table(live: Live) -> None:
    wrong = [
        (caller, method, template, status)
        for method, template in routes()
        for caller in CALLERS
        if (status := await live.ask(caller, method, filled(template)))
        not in expected(caller, method, filled(template))
    ]

    assert wrong == []


def test_the_table_has_the_decided_values_at_critical_places() -> None:
    """The table itself, at the places where a slip would hurt most."""
    for caller, method, path, status in (
        ("viewer", "POST", "/api/executions", 403),
        ("operator", "POST", "/api/executions", REACHED),
        ("operator", "POST", "/api/catalog", 403),
        ("author", "POST", "/api/catalog", REACHED),
        ("author", "PUT", "/api/credentials/x", 403),
        ("author", "POST", "/api/tokens", 403),
        ("admin", "POST", "/api/tokens", REACHED),
        ("admin", "POST", "/api/orders/turn", 403),
        ("admin", "POST", "/api/orders/secret", 403),
        ("worker", "POST", "/api/orders/secret", REACHED),
        ("worker", "GET", "/api/executions", 403),
        ("worker", "POST", "/api/executions", 403),
        ("viewer", "GET", "/api/audit", 403),
        ("none", "GET", "/metrics", 401),
        ("none", "GET", "/openapi.json", 401),
        ("none", "GET", "/api/stream", 401),
        ("none", "GET", "/api/health/live", REACHED),
    ):
        assert expected(caller, method, path) == {status}, (caller, method, path)


TRICKS: dict[str, Callable[[str], str]] = {
    "slash in front": lambda path: "/" + path,
    "double slash": lambda path: path.replace("/", "//"),
    "encoded slash": lambda path: path[0] + path[1:].replace("/", "%2F"),
    "encoded letters": lambda path: "/" + "".join(f"%{ord(one):02x}" for one in path[1:]),
    "doubly encoded": lambda path: path.replace("/", "%252F"),
    "dot": lambda path: path.replace("/", "/./", 1) if path.count("/") == 1 else path.replace("/api", "/./api", 1),
    "dots": lambda path: "/api/health/live/.." + path,
    "up and down": lambda path: f"/api/health/live/../../..{path}",
    "slash behind": lambda path: path + "/",
    "public suffix": lambda path: path + "/api/health/live",
    "public name behind": lambda path: path + "/live",
    "public query": lambda path: path + "?/api/health/live",
    "matrix parameter": lambda path: path + ";/api/health/live",
    "extension": lambda path: path + ".json",
    "static name": lambda path: path + "/style.css",
    "upper case": lambda path: path.upper(),
    "mixed case": lambda path: path.replace("api", "Api"),
    "NUL": lambda path: path + "%00",
    "line break": lambda path: path + "%0a",
    "tab": lambda path: path + "%09",
    "backslash": lambda path: path.replace("/", "\\"),
    "encoded fragment": lambda path: path + "%23",
    "encoded question mark": lambda path: path + "%3f",
    "without the first slash": lambda path: path[1:],
}


@pytest.mark.parametrize("name", TRICKS)
async def test_no_path_trick_opens_a_closed_route(live: Live, name: str) -> None:
    wrong = []
    for method, template in one_in(3, routes(), first=len(name)):  # another third for each trick
        raw = TRICKS[name](filled(template))
        for caller in ("none", "bad", "viewer", "operator", "worker", "admin"):
            status = await live.ask(caller, method, raw)
            if status not in expected(caller, method, raw):
                wrong.append((caller, method, raw, status))

    assert wrong == []


@pytest.mark.parametrize(
    "header",
    [
        (b"x-http-method-override", b"GET"),
        (b"x-http-method", b"GET"),
        (b"x-method-override", b"GET"),
        (b"x-original-url", b"/api/health/live"),
        (b"x-rewrite-url", b"/api/health/live"),
        (b"x-forwarded-uri", b"/api/health/live"),
        (b"x-forwarded-prefix", b"/api/health"),
        (b"x-forwarded-for", b"127.0.0.1"),
        (b"x-forwarded-user", b"admin"),
        (b"x-remote-user", b"admin"),
        (b"forwarded", b"for=127.0.0.1;host=localhost"),
        (b"x-custom-ip-authorization", b"127.0.0.1"),
    ],
    ids=lambda header: header[0].decode(),
)
async def test_no_header_opens_a_closed_route(live: Live, header: tuple[bytes, bytes]) -> None:
    wrong = [
        (caller, method, template, status)
        for method, template in one_in(3, routes(), first=len(header[0]))
        for caller in ("none", "viewer", "worker")
        if (status := await live.ask(caller, method, filled(template), header))
        not in expected(caller, method, filled(template))
    ]

    assert wrong == []


async def test_an_unexpected_failure_is_recorded_and_has_security_headers(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(request: Request) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(guarded_router, "guard", broken)
    transport = httpx2.ASGITransport(live.app)
    headers = {"authorization": live.headers["operator"][0][1].decode()}
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as operator:
        answer = await operator.post("/api/executions", json={"path": "x"})

    assert (answer.status_code, answer.headers["x-content-type-options"]) == (500, "nosniff")
    [row] = await live.access.store.audit.newest(limit=1)
    assert (row.actor, row.action, row.outcome) == ("operator", "POST /api/executions", "500")


async def test_head_has_the_permissions_of_get(live: Live) -> None:
    wrong = [
        (caller, template, status)
        for _, template in routes()
        for caller in ("none", "viewer", "admin")
        if (status := await live.ask(caller, "HEAD", filled(template))) not in expected(caller, "GET", filled(template))
    ]

    assert wrong == []


@pytest.mark.parametrize("method", ["OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "FOO", ""])
async def test_no_other_method_opens_a_closed_route(live: Live, method: str) -> None:
    wrong = [
        (caller, template, status)
        for _, template in routes()
        for caller in ("none", "viewer", "admin")
        if (status := await live.ask(caller, method, filled(template)))
        not in expected(caller, method, filled(template))
    ]

    assert wrong == []


def test_a_router_with_unguarded_routes_is_refused() -> None:
    router = APIRouter()
    router.add_api_route("/api/open", lambda: None)

    with pytest.raises(TypeError, match="/api/open"):
        guarded_router.include(FastAPI(), router)
