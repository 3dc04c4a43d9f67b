"""Routes of the audit log: read and checked by administrators; nothing here or elsewhere changes it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request

from noetl.operations.administration_shapes import AuditPage
from noetl.operations.audit import audit_page
from noetl.server.access.access import access_of
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.store.audit import AuditChainCheck, walked

router = GuardedRouter(tags=["access"])


@router.get("/api/audit", **shows(AuditPage, summary="The audit log"))
async def list_audit(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[int | None, Query(ge=1, le=2**62)] = None,
) -> Json:
    """The newest rows first."""
    return Json(await audit_page(access_of(request).store.audit, limit=limit, before=cursor))


@router.get("/api/audit/verify", **shows(AuditChainCheck, summary="Check the audit log"))
async def verify_audit(request: Request, holds: Annotated[str | None, Query(max_length=64)] = None) -> Json:
    """Walk the chain of hashes. Note `last_hash` elsewhere: asked for as `holds` later, it shows whether rows were cut
    off the end."""
    return Json(await walked(access_of(request).store.audit, looking_for=holds))
