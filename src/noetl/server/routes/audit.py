"""Routes of the audit log: read and checked by administrators; nothing here or elsewhere changes it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request

from noetl.base.clock import rfc3339
from noetl.server.access.access import access_of
from noetl.server.guarded_router import Json, shows
from noetl.store.audit import AuditChainCheck, AuditRow, walked

router = APIRouter(tags=["access"])


class AuditShape(msgspec.Struct, frozen=True, kw_only=True):
    """A row: who did what to what, from where, and how it ended; `hash` is over all of it and `prev_hash`."""

    seq: int
    at: str
    actor: str
    action: str
    object: str
    address: str
    outcome: str
    prev_hash: str
    hash: str


class AuditPage(msgspec.Struct, frozen=True):
    """`next` is the cursor of the page after this one, null on the last."""

    rows: list[AuditShape]
    next: str | None


@router.get("/api/audit", **shows(AuditPage, summary="The audit log"))
async def list_audit(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[int | None, Query(ge=1, le=2**62)] = None,
) -> Json:
    """The newest rows first."""
    rows = await access_of(request).store.audit.newest(limit=limit, before=cursor)
    has_more = len(rows) == limit and rows[-1].seq > 1
    return Json(AuditPage([_audit_shape(row) for row in rows], str(rows[-1].seq) if has_more else None))


@router.get("/api/audit/verify", **shows(AuditChainCheck, summary="Check the audit log"))
async def verify_audit(request: Request, holds: Annotated[str | None, Query(max_length=64)] = None) -> Json:
    """Walk the chain of hashes. Note `last_hash` elsewhere: asked for as `holds` later, it shows whether rows were cut
    off the end."""
    return Json(await walked(access_of(request).store.audit, looking_for=holds))


def _audit_shape(row: AuditRow) -> AuditShape:
    fields = {name: getattr(row, name) for name in AuditShape.__struct_fields__}
    return AuditShape(**{**fields, "at": rfc3339(row.at)})
