"""Routes of tokens: made, listed and revoked by administrators. A token's text is in one answer and never again."""

from __future__ import annotations

import msgspec
from fastapi import Request

from noetl.operations.administration_shapes import AccessTokenView, MadeToken
from noetl.operations.identity import Role
from noetl.operations.tokens import Wanted, made_token, token_view
from noetl.server.access.access import access_of
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import unknown

router = GuardedRouter(tags=["access"])


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subject: str
    role: Role
    human_roles: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    expires_in_s: float | None = None


class AccessTokenList(msgspec.Struct, frozen=True):
    tokens: list[AccessTokenView]


@router.get("/api/tokens", **shows(AccessTokenList, summary="List tokens"))
async def list_tokens(request: Request) -> Json:
    """All tokens, revoked ones too."""
    return Json(AccessTokenList([token_view(one) for one in await access_of(request).tokens.list()]))


@router.post("/api/tokens", **shows(MadeToken, reads=NewToken, status=201, summary="Make a token"))
async def create_token(request: Request) -> Json:
    """Make a token; its text is in this answer only."""
    wanted = await read(request, NewToken)
    text, token = await access_of(request).tokens.create(Wanted(**msgspec.structs.asdict(wanted)))
    return Json(made_token(text, token), 201)


@router.delete("/api/tokens/{token_id}", **shows(AccessTokenView, summary="Revoke a token"))
async def revoke_token(request: Request, token_id: str) -> Json:
    """End a token for ever, and the sessions that were opened with it."""
    token = await access_of(request).tokens.revoke(token_id)
    if token is None:
        raise unknown("token", token_id)
    return Json(token_view(token))
