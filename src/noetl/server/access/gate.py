"""The gate: every request passes it before any route runs. It is the one place that denies by default.

It checks, in this order: the host name of the request, its caller, its route, and whether the caller may use it. A
caller without a token gets 401 for everything that is not public, so the answer does not reveal which paths exist. It
is plain ASGI middleware, so that streams pass without buffering.
"""

from __future__ import annotations

from math import ceil

import msgspec
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from noetl.base.errors import BackendError
from noetl.operations.administration_shapes import Role
from noetl.server.access.access import Access
from noetl.server.access.audit_writer import address_of
from noetl.server.access.callers import ANONYMOUS_LOOKUP, CallerLookup, Headers, is_own_origin, may_change
from noetl.server.access.hosts import network_of
from noetl.server.access.request_check import UNKNOWN, RequestCheck
from noetl.server.access.roles import SAFE, SIGNS_IN, ProtectedRoute, RouteTable
from noetl.server.connections import CONNECTION
from noetl.server.problem_details import ProblemDetails, StreamEndedError, problem_of, problem_response
from noetl.server.static_files import not_found_page

PASSED = "noetl.passed"
# Of RFC 6455: how a websocket is refused.
_POLICY_VIOLATION = 1008
# Health probes use the address of a pod as host name, which no operator can list. Their answers are public.
ANY_HOST_PATHS = frozenset({"/api/health/live", "/api/health/ready"})


class GateResult(msgspec.Struct, frozen=True):
    """The caller and the route of a request that passed the gate."""

    caller: CallerLookup
    route: ProtectedRoute


class Gate:
    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access
        self._routes: RouteTable | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._pass(scope, receive, send)
            # The API has no websockets. One that is added needs access rules first.
            case "websocket":
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            case _:
                await self._app(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        check = RequestCheck(self._access, scope, send)
        try:
            route = await self._authorize(scope, check)
            scope[PASSED] = GateResult(check.caller, route)
        except ProblemDetails as problem:
            page = not_found_page(scope, problem.status, problem.headers) if check.is_unknown_path else None
            await (page or problem_response(problem, scope["path"]))(scope, receive, check.answer)
            return
        except BackendError as problem:
            await problem_response(problem_of(problem), scope["path"])(scope, receive, check.answer)
            return
        try:
            await self._app(scope, receive, check.answer)
        except StreamEndedError:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _authorize(self, scope: Scope, check: RequestCheck) -> ProtectedRoute:
        """The route that this request may use. ProblemDetails says why it may use none."""
        method, path, headers = scope["method"], scope["path"], scope["headers"]
        if path.removeprefix(scope.get("root_path", "")) not in ANY_HOST_PATHS:
            self._check_host(headers)
        # Routes and log lines repeat the path; a control character could forge a line.
        if not path.isprintable():
            raise ProblemDetails(400, "the path holds a control character")
        route, others = self._find_route(scope, method, path.removeprefix(scope.get("root_path", "")))
        check.action = f"{method} {route.template if route else UNKNOWN}"
        check.is_unknown_path = route is None and not others
        # Identify the caller before answering "not found": without a token the answer must not reveal a path.
        if route is None or not route.rule(method).is_public:
            check.caller = await self._known_caller(scope, headers, check)
        if route is None:
            raise _not_found(method, others)
        rule = route.rule(method)
        check.is_audited = rule.is_audited
        if not rule.admits(check.caller.identity):
            raise _forbidden(check.caller, rule.roles)
        self._check_csrf(scope, check.caller, route)
        self._check_rate(scope, check.caller)
        return route

    def _find_route(self, scope: Scope, method: str, path: str) -> tuple[ProtectedRoute | None, frozenset[str]]:
        if self._routes is None:
            assert isinstance(scope["app"], FastAPI)
            # Built with the first request: routes are added to the application after the gate.
            self._routes = RouteTable(scope["app"])
        return self._routes.find(method, path)

    def _check_host(self, headers: Headers) -> None:
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1:
            raise ProblemDetails(400, "a request names one host")
        if not self._access.hosts.know(hosts[0]):
            raise ProblemDetails(
                421, "this server does not answer to that name; its operator can add it with --allowed-host"
            )

    async def _known_caller(self, scope: Scope, headers: Headers, check: RequestCheck) -> CallerLookup:
        caller = await self._access.callers.find_caller(headers)
        if caller is not None and caller is not ANONYMOUS_LOOKUP:
            # None in tests without a socket.
            if (connection := scope.get(CONNECTION)) is not None:
                connection.recognise()
            return caller
        limits, check.reason = self._access.limits, "no token" if caller is ANONYMOUS_LOOKUP else "a wrong token"
        # Rate-limit before answering: each of these requests also writes to the audit log.
        buckets = limits.tokenless if caller is ANONYMOUS_LOOKUP else limits.failures
        wait_s = buckets.take(network_of(address_of(scope)))
        if wait_s:
            raise _rate_limited(wait_s)
        raise ProblemDetails(
            401,
            "show a token of this server that is neither expired nor revoked: Authorization: Bearer …",
            headers={"www-authenticate": "Bearer"},
        )

    def _check_csrf(self, scope: Scope, caller: CallerLookup, route: ProtectedRoute) -> None:
        headers, scheme = scope["headers"], self._access.scheme(scope["scheme"])
        if scope["method"] in SAFE:
            return
        if not may_change(caller, headers, scheme):
            raise ProblemDetails(
                403, "a change by cookie needs the header Noetl-CSRF and comes from a page of this server"
            )
        # Programs send no Origin and may sign in. A page of another origin must not sign its reader in as another user.
        comes_from_a_page = any(name == b"origin" for name, _ in headers)
        if route.rule(scope["method"]) is SIGNS_IN and comes_from_a_page and not is_own_origin(headers, scheme):
            raise ProblemDetails(403, "this is not for pages of other origins")

    def _check_rate(self, scope: Scope, caller: CallerLookup) -> None:
        limits, identity = self._access.limits, caller.identity
        match identity.role:
            case Role.NOBODY:
                wait_s = limits.anonymous.take(network_of(address_of(scope)))
            case Role.WORKER:
                wait_s = limits.workers.take(identity.token_id)
            case _:
                wait_s = limits.people.take(identity.token_id)
        if wait_s:
            raise _rate_limited(wait_s)


def _not_found(method: str, others: frozenset[str]) -> ProblemDetails:
    if not others:
        return ProblemDetails(404, "there is nothing at this path")
    allowed = ", ".join(sorted(others))
    return ProblemDetails(405, f"this path does not support {method}; use {allowed}", headers={"allow": allowed})


def _forbidden(caller: CallerLookup, roles: frozenset[Role]) -> ProblemDetails:
    # The lowest sufficient role: `Role` lists them in ascending order.
    needed = next((role for role in Role if role in roles), None)
    what = f"it needs the role {needed}" if needed else "no role may send this request"
    if needed is Role.WORKER:
        what += " (noetl token create NAME --role worker makes one)"
    return ProblemDetails(403, f"your token has the role {caller.identity.role}; {what}")


def _rate_limited(wait_s: float) -> ProblemDetails:
    seconds = max(1, ceil(wait_s))
    return ProblemDetails(429, f"too many requests; try again in {seconds} s", headers={"retry-after": str(seconds)})
