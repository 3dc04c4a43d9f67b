"""The gate: every request passes here before any route is run. It is the one place where doors are closed by default.

In this order: the name the request was sent to, who sends it, which route it is for, whether that is allowed. A
stranger hears 401 for everything that is not public, so nobody learns which paths exist. Pure ASGI: streams pass.
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
from noetl.server.access.callers import STRANGER, CallerLookup, Headers, is_own_origin, may_change
from noetl.server.access.hosts import network_of
from noetl.server.access.request_check import UNKNOWN, Visit
from noetl.server.access.roles import SAFE, SIGNS_IN, Door, Doors
from noetl.server.connections import CONNECTION
from noetl.server.problem_details import ProblemDetails, StreamEndedError, of_error, written
from noetl.server.static_files import page_for_nothing

PASSED = "noetl.passed"
# Of RFC 6455: how a websocket is refused.
_POLICY_VIOLATION = 1008
# A probe names the address of a pod, which no operator can list; its answer says nothing that a stranger may not know.
FOR_ANY_HOST = frozenset({"/api/health/live", "/api/health/ready"})


class Passed(msgspec.Struct, frozen=True):
    """What the gate found: who asks, and by which door."""

    caller: CallerLookup
    door: Door


class Gate:
    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access
        self._doors: Doors | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._pass(scope, receive, send)
            case "websocket":  # there is none here, and one that is added needs rules first
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            case _:
                await self._app(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = Visit(self._access, scope, send)
        try:
            door = await self._admitted(scope, visit)
            scope[PASSED] = Passed(visit.caller, door)
        except ProblemDetails as problem:
            page = page_for_nothing(scope, problem.status, problem.headers) if visit.leads_nowhere else None
            await (page or written(problem, scope["path"]))(scope, receive, visit.answer)
            return
        except BackendError as problem:
            await written(of_error(problem), scope["path"])(scope, receive, visit.answer)
            return
        try:
            await self._app(scope, receive, visit.answer)
        except StreamEndedError:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _admitted(self, scope: Scope, visit: Visit) -> Door:
        """The door that is open to this request. Problem says why there is none."""
        method, path, headers = scope["method"], scope["path"], scope["headers"]
        if path.removeprefix(scope.get("root_path", "")) not in FOR_ANY_HOST:
            self._refuse_strange_host(headers)
        if not path.isprintable():
            raise ProblemDetails(400, "the path holds a control character")
        door, others = self._find_door(scope, method, path.removeprefix(scope.get("root_path", "")))
        visit.action = f"{method} {door.template if door else UNKNOWN}"
        visit.leads_nowhere = door is None and not others
        if door is None or not door.rule(method).is_public:
            visit.caller = await self._known_caller(scope, headers, visit)
        if door is None:
            raise _nothing_there(method, others)
        rule = door.rule(method)
        visit.is_audited = rule.is_audited
        if not rule.admits(visit.caller.identity):
            raise _not_yours(visit.caller, rule.roles)
        self._refuse_other_pages(scope, visit.caller, door)
        self._refuse_haste(scope, visit.caller)
        return door

    def _find_door(self, scope: Scope, method: str, path: str) -> tuple[Door | None, frozenset[str]]:
        if self._doors is None:
            assert isinstance(scope["app"], FastAPI)
            self._doors = Doors(scope["app"])
        return self._doors.find(method, path)

    def _refuse_strange_host(self, headers: Headers) -> None:
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1:
            raise ProblemDetails(400, "a request names one host")
        if not self._access.hosts.know(hosts[0]):
            raise ProblemDetails(
                421, "this server does not answer to that name; its operator can add it with --allowed-host"
            )

    async def _known_caller(self, scope: Scope, headers: Headers, visit: Visit) -> CallerLookup:
        caller = await self._access.callers.find_caller(headers)
        if caller is not None and caller is not STRANGER:
            if (connection := scope.get(CONNECTION)) is not None:
                connection.recognise()
            return caller
        limits, visit.reason = self._access.limits, "no token" if caller is STRANGER else "a wrong token"
        wait_s = (limits.nameless if caller is STRANGER else limits.failures).take(network_of(address_of(scope)))
        if wait_s:
            raise _too_often(wait_s)
        raise ProblemDetails(
            401,
            "show a token of this server that is neither expired nor revoked: Authorization: Bearer …",
            headers={"www-authenticate": "Bearer"},
        )

    def _refuse_other_pages(self, scope: Scope, caller: CallerLookup, door: Door) -> None:
        headers, scheme = scope["headers"], self._access.scheme(scope["scheme"])
        if scope["method"] in SAFE:
            return
        if not may_change(caller, headers, scheme):
            raise ProblemDetails(
                403, "a change by cookie needs the header Noetl-CSRF and comes from a page of this server"
            )
        comes_from_a_page = any(name == b"origin" for name, _ in headers)
        if door.rule(scope["method"]) is SIGNS_IN and comes_from_a_page and not is_own_origin(headers, scheme):
            raise ProblemDetails(403, "this is not for pages of other origins")

    def _refuse_haste(self, scope: Scope, caller: CallerLookup) -> None:
        limits, identity = self._access.limits, caller.identity
        match identity.role:
            case Role.NOBODY:
                wait_s = limits.strangers.take(network_of(address_of(scope)))
            case Role.WORKER:
                wait_s = limits.workers.take(identity.token_id)
            case _:
                wait_s = limits.people.take(identity.token_id)
        if wait_s:
            raise _too_often(wait_s)


def _nothing_there(method: str, others: frozenset[str]) -> ProblemDetails:
    if not others:
        return ProblemDetails(404, "there is nothing at this path")
    allowed = ", ".join(sorted(others))
    return ProblemDetails(405, f"{method} is not for this path; {allowed} is", headers={"allow": allowed})


def _not_yours(caller: CallerLookup, roles: frozenset[Role]) -> ProblemDetails:
    needed = next((role for role in Role if role in roles), None)
    what = f"it needs the role {needed}" if needed else "no role may send this request"
    if needed is Role.WORKER:
        what += " (noetl token create NAME --role worker makes one)"
    return ProblemDetails(403, f"your token has the role {caller.identity.role}; {what}")


def _too_often(wait_s: float) -> ProblemDetails:
    seconds = max(1, ceil(wait_s))
    return ProblemDetails(429, f"too many requests; come again in {seconds} s", headers={"retry-after": str(seconds)})
