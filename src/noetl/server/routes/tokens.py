"""Routes of tokens: made, listed and revoked by administrators. A token's text is in one answer and never again."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request

from noetl.base.clock import rfc3339
from noetl.base.errors import RefusedError
from noetl.server.access.access import access_of
from noetl.server.access.identity import Role
from noetl.server.access.tokens import AccessToken, Wanted
from noetl.server.bodies import read
from noetl.server.guarded_router import Json, shows
from noetl.server.problem_details import ProblemDetails, unknown

router = APIRouter(tags=["access"])


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subject: str
    role: Role
    human_roles: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    expires_in_s: float | None = None


class AccessTokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it may be shown."""

    token_id: str
    subject: str
    role: Role
    human_roles: tuple[str, ...]
    pools: tuple[str, ...]
    created_at: str | None
    expires_at: str | None
    used_at: str | None
    revoked_at: str | None


class MadeToken(AccessTokenView, frozen=True, kw_only=True):
    token: str


class AccessTokenList(msgspec.Struct, frozen=True):
    tokens: list[AccessTokenView]


@router.get("/api/tokens", **shows(AccessTokenList, summary="List tokens"))
async def list_tokens(request: Request) -> Json:
    """All tokens, revoked ones too."""
    return Json(
        AccessTokenList([AccessTokenView(**_token_fields(one)) for one in await access_of(request).tokens.list()])
    )


@router.post("/api/tokens", **shows(MadeToken, reads=NewToken, status=201, summary="Make a token"))
async def create_token(request: Request) -> Json:
    """Make a token; its text is in this answer only."""
    wanted = await read(request, NewToken)
    try:
        text, token = await access_of(request).tokens.create(Wanted(**msgspec.structs.asdict(wanted)))
    except RefusedError as problem:
        raise ProblemDetails(422, str(problem)) from None
    return Json(MadeToken(**_token_fields(token), token=text), 201)


@router.delete("/api/tokens/{token_id}", **shows(AccessTokenView, summary="Revoke a token"))
async def revoke_token(request: Request, token_id: str) -> Json:
    """End a token for ever, and the sessions that were opened with it."""
    token = await access_of(request).tokens.revoke(token_id)
    if token is None:
        raise unknown("token", token_id)
    return Json(AccessTokenView(**_token_fields(token)))


def _token_fields(token: AccessToken) -> dict[str, Any]:
    shown = {field: getattr(token, field) for field in AccessTokenView.__struct_fields__}
    return {field: rfc3339(value) if isinstance(value, float) else value for field, value in shown.items()}
