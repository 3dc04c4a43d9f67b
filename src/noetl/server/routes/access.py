"""Routes of access: sessions of browsers, tokens, the audit log, credentials.

A browser gives a token once and has a cookie from then on, which no script can read. A token's text is in one answer
and never again. Nothing here or elsewhere changes the audit log. Values of credentials go in and never come out.
"""

from __future__ import annotations

import hmac
import math
import os
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from noetl.base.clock import rfc3339
from noetl.operations.administration_shapes import (
    AccessTokenView,
    AuditPage,
    Caller,
    CredentialCheck,
    CredentialTypeView,
    CredentialView,
    MadeToken,
    Role,
    Rotated,
    SessionShape,
    SessionView,
)
from noetl.operations.credentials import CredentialOperations, credential_types, missing_key_message, used_key_id
from noetl.operations.tokens import AccessToken, TokenRequest, audit_page, made_token, token_view
from noetl.secrets.encryption import MasterKeys, digest_of, has_master_keys, load_master_keys
from noetl.server.access.access import Access, access_of
from noetl.server.access.audit_writer import ACTOR, OBJECT, address_of, object_with
from noetl.server.access.callers import WHOLE_S, BrowserSession, cookie_name, csrf_of
from noetl.server.access.hosts import network_of
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, gate_result, openapi_docs
from noetl.server.problem_details import ProblemDetails, not_found, too_busy
from noetl.server.services import Services, services_of, tools_of
from noetl.store.audit import AuditChainCheck, walked

router = GuardedRouter(tags=["access"])


class SignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str


@router.post("/api/session", **openapi_docs(SessionShape, reads=SignIn, status=201, summary="Sign in"))
async def sign_in(request: Request) -> Json:
    """Open a session with the token of a person."""
    access = access_of(request)
    token = await access.tokens.authenticate((await read(request, SignIn)).token)
    if token is None:
        # Only wrong tokens count: people behind one address may sign in as often as they like.
        if wait_s := access.limits.failures.take(network_of(address_of(request.scope))):
            raise too_busy("too many wrong tokens; try again later", int(wait_s) + 1)
        raise ProblemDetails(401, "this is not a token of this server, or not any more")
    # The request itself is anonymous; the audit log names whom the token was made for, also when it is refused below.
    request.scope[ACTOR] = token.subject
    if token.role is Role.WORKER:
        raise ProblemDetails(403, "a worker's token opens no session: sessions are for people")
    session_id = await access.sessions.open(token)
    answer = Json(_shape(token.identity, session_id, token.expires_at), 201)
    _set_cookie(answer, access, session_id)
    return answer


@router.get("/api/session", **openapi_docs(SessionShape, summary="Who am I"))
async def who_am_i(request: Request) -> Json:
    """Who this token or session belongs to."""
    caller = gate_result(request).caller
    token = await access_of(request).tokens.get(caller.identity.token_id)
    return Json(_shape(caller.identity, caller.session_id, token.expires_at if token is not None else None))


@router.delete("/api/session", **openapi_docs(status=204, summary="Sign out"))
async def sign_out(request: Request) -> Response:
    """End the session; the token stays as it is."""
    access, session_id = access_of(request), gate_result(request).caller.session_id
    if session_id is None:
        raise ProblemDetails(409, "this request has a token and no session; revoke the token instead")
    await access.sessions.close(session_id)
    answer = Response(status_code=204)
    # A browser deletes a cookie only when these agree with how it was set.
    answer.delete_cookie(cookie_name(tls=access.tls), path="/", secure=access.tls, httponly=True, samesite="strict")
    return answer


def _shape(identity: Caller, session_id: str | None, expires_at: float | None) -> SessionShape:
    return SessionShape(
        subject=identity.subject,
        role=identity.role,
        human_roles=tuple(sorted(identity.human_roles)),
        csrf=csrf_of(session_id) if session_id is not None else None,
        token_expires_at=rfc3339(expires_at) if expires_at is not None else None,
    )


def _set_cookie(answer: Response, access: Access, session_id: str) -> None:
    answer.set_cookie(
        cookie_name(tls=access.tls),
        session_id,
        max_age=int(WHOLE_S),
        path="/",
        secure=access.tls,
        httponly=True,
        samesite="strict",
    )


class SessionList(msgspec.Struct, frozen=True):
    sessions: list[SessionView]


@router.get("/api/sessions", **openapi_docs(SessionList, summary="List sessions"))
async def list_sessions(request: Request) -> Json:
    """The browsers that are signed in, the last used first."""
    own = gate_result(request).caller.session_id
    own_key = digest_of(own) if own is not None else None
    sessions = await access_of(request).sessions.active()
    return Json(SessionList([_session_view(*session, own_key) for session in sessions]))


@router.delete("/api/sessions/{session_key}", **openapi_docs(status=204, summary="End a session"))
async def end_session(request: Request, session_key: str) -> Response:
    """Sign a browser out; its token stays as it is."""
    if not await access_of(request).sessions.end(session_key):
        raise not_found("session", session_key)
    return Response(status_code=204)


def _session_view(key: str, session: BrowserSession, token: AccessToken, own_key: str | None) -> SessionView:
    return SessionView(
        session_key=key,
        subject=token.subject,
        role=token.role,
        token_id=token.token_id,
        created_at=rfc3339(session.created_at),
        last_seen=rfc3339(session.seen_at),
        expires_at=rfc3339(min(session.created_at + WHOLE_S, token.expires_at or math.inf)),
        is_own=own_key is not None and hmac.compare_digest(key, own_key),
    )


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subject: str
    role: Role
    human_roles: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    expires_in_s: float | None = None


class AccessTokenList(msgspec.Struct, frozen=True):
    tokens: list[AccessTokenView]


@router.get("/api/tokens", **openapi_docs(AccessTokenList, summary="List tokens"))
async def list_tokens(request: Request) -> Json:
    """All tokens, revoked ones too."""
    return Json(AccessTokenList([token_view(token) for token in await access_of(request).tokens.list()]))


@router.post("/api/tokens", **openapi_docs(MadeToken, reads=NewToken, status=201, summary="Make a token"))
async def create_token(request: Request) -> Json:
    """Make a token; its text is in this answer only."""
    wanted = await read(request, NewToken)
    text, token = await access_of(request).tokens.create(TokenRequest(**msgspec.structs.asdict(wanted)))
    made = made_token(text, token)
    request.scope[OBJECT] = object_with(
        request.url.path, subject=made.subject, role=made.role, expires_at=made.expires_at, token_id=made.token_id
    )
    return Json(made, 201)


@router.delete("/api/tokens/{token_id}", **openapi_docs(AccessTokenView, summary="Revoke a token"))
async def revoke_token(request: Request, token_id: str) -> Json:
    """Revoke a token permanently, and end the sessions that were opened with it."""
    token = await access_of(request).tokens.revoke(token_id)
    if token is None:
        raise not_found("token", token_id)
    return Json(token_view(token))


@router.get("/api/audit", **openapi_docs(AuditPage, summary="The audit log"))
async def list_audit(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[int | None, Query(ge=1, le=2**62)] = None,
) -> Json:
    """The newest rows first."""
    return Json(await audit_page(access_of(request).store.audit, limit=limit, before=cursor))


@router.get("/api/audit/verify", **openapi_docs(AuditChainCheck, summary="Check the audit log"))
async def verify_audit(request: Request, holds: Annotated[str | None, Query(max_length=64)] = None) -> Json:
    """Walk the chain of hashes. Note `last_hash` elsewhere: asked for as `holds` later, it shows whether rows were cut
    off the end."""
    return Json(await walked(access_of(request).store.audit, looking_for=holds))


# Routes of credentials: values go in and never come out (reliability.md §2.6).

credentials_router = GuardedRouter(tags=["credentials"])


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`value` is one text, or an object of fields as the type has them."""

    value: str | dict[str, Any]
    type: str = "text"

    def __repr__(self) -> str:
        return f"Setting(type={self.type!r})"


class Trying(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`kind`: the kind of task that uses it, known from its type when left out. `url`: a bucket to look into."""

    kind: str | None = None
    url: str | None = None


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """`types`: those that a credential can have, also where none is stored."""

    credentials: list[CredentialView]
    types: list[CredentialTypeView]


@credentials_router.get("/api/credentials", **openapi_docs(Credentials, summary="List credentials"))
async def credentials(request: Request) -> Response:
    """Names, types, versions and fingerprints; never a value."""
    stored = await _credentials(services_of(request), MasterKeys([])).list()
    return Json(Credentials(credentials=stored, types=credential_types()))


@credentials_router.put(
    "/api/credentials/{name}", **openapi_docs(CredentialView, reads=Setting, summary="Store a credential")
)
async def put(request: Request, name: str) -> Response:
    """A new one, or a new version of one."""
    services, asked = services_of(request), await read(request, Setting)
    # where the author sits at the terminal a first key is made for them; elsewhere the operator decides
    keys = await _master_keys(services, create=services.settings.local)
    stored = await _credentials(services, keys).set(name, asked.value, kind=asked.type)
    services.secret_release.reopen()  # the first key may just have been made
    return Json(stored)


@credentials_router.delete("/api/credentials/{name}", **openapi_docs(status=204, summary="Delete a credential"))
async def delete(request: Request, name: str) -> Response:
    await _credentials(services_of(request), MasterKeys([])).delete(name)
    return Response(status_code=204)


@credentials_router.post(
    "/api/credentials/{name}/test", **openapi_docs(CredentialCheck, reads=Trying, summary="Try a credential")
)
async def test(request: Request, name: str) -> Response:
    """Connect with it from here, under the address policy of this server, and do nothing else."""
    services, asked = services_of(request), await read(request, Trying)
    tools = tools_of(services.settings)  # of its own: it is closed afterwards
    return Json(await _credentials(services, await _master_keys(services)).check(name, asked.kind, asked.url, tools))


@credentials_router.post("/api/credentials/rotate", **openapi_docs(Rotated, summary="Put all under a new master key"))
async def rotate(request: Request) -> Response:
    """An interrupted rotation is finished first. With a key from the environment the operator adds the new one."""
    services = services_of(request)
    return Json(await _credentials(services, await _master_keys(services)).rotate(services.secret_release.reopen))


def _credentials(services: Services, keys: MasterKeys) -> CredentialOperations:
    return CredentialOperations(services.store, keys, services.clock)


async def _master_keys(services: Services, *, create: bool = False) -> MasterKeys:
    # Not a 503: trying again does not help until the operator has set the key, and clients repeat what got a 503.
    if not has_master_keys(os.environ) and (key_id := await used_key_id(services.store)) is not None:
        raise ProblemDetails(409, missing_key_message(key_id, os.environ), kind="no-master-key")
    if keys := load_master_keys(os.environ, create=create):
        return keys
    message = (
        "this server has no master key, so it can store, read and rotate no credentials: "
        "set NOETL_MASTER_KEY or NOETL_MASTER_KEY_FILE for it and start it again"
    )
    raise ProblemDetails(409, message, kind="no-master-key")
