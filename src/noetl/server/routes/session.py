"""Routes of sessions: a browser gives a token once and has a cookie from then on, which no script can read."""

from __future__ import annotations

import msgspec
from fastapi import Request, Response

from noetl.operations.administration_shapes import SessionShape
from noetl.operations.identity import Caller, Role
from noetl.server.access.access import Access, access_of
from noetl.server.access.audit_writer import ACTOR, address_of
from noetl.server.access.callers import COOKIE
from noetl.server.access.origins import network_of
from noetl.server.access.route_guard import passed
from noetl.server.access.sessions import WHOLE_S, csrf_of
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails, too_busy

router = GuardedRouter(tags=["access"])


class SignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str


@router.post("/api/session", **shows(SessionShape, reads=SignIn, status=201, summary="Sign in"))
async def sign_in(request: Request) -> Json:
    """Open a session for whoever has a person's token."""
    access = access_of(request)
    token = await access.tokens.identified((await read(request, SignIn)).token)
    if token is None:
        if wait_s := access.limits.failures.take(network_of(address_of(request.scope))):
            raise too_busy("too many wrong tokens; come again later", int(wait_s) + 1)
        raise ProblemDetails(401, "this is not a token of this server, or not any more")
    request.scope[ACTOR] = token.subject
    if token.role is Role.WORKER:
        raise ProblemDetails(403, "a worker's token opens no session: sessions are for people")
    session_id = await access.sessions.open(token)
    answer = Json(_shape(token.identity, session_id), 201)
    _set_cookie(answer, access, session_id)
    return answer


@router.get("/api/session", **shows(SessionShape, summary="Who am I"))
async def who_am_i(request: Request) -> Json:
    """Who this token or session belongs to."""
    caller = passed(request).caller
    return Json(_shape(caller.identity, caller.session_id))


@router.delete("/api/session", **shows(status=204, summary="Sign out"))
async def sign_out(request: Request) -> Response:
    """End the session; the token stays as it is."""
    access, session_id = access_of(request), passed(request).caller.session_id
    if session_id is None:
        raise ProblemDetails(409, "this request has a token and no session; revoke the token instead")
    await access.sessions.close(session_id)
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, path="/", secure=access.tls, httponly=True, samesite="strict")
    return answer


def _shape(identity: Caller, session_id: str | None) -> SessionShape:
    return SessionShape(
        subject=identity.subject,
        role=identity.role,
        human_roles=tuple(sorted(identity.human_roles)),
        csrf=csrf_of(session_id) if session_id is not None else None,
    )


def _set_cookie(answer: Response, access: Access, session_id: str) -> None:
    answer.set_cookie(
        COOKIE, session_id, max_age=int(WHOLE_S), path="/", secure=access.tls, httponly=True, samesite="strict"
    )
