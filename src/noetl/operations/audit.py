"""The audit log: pages of it, for whoever may read it. Nothing changes it."""

from __future__ import annotations

from noetl.operations.administration_shapes import AuditPage, AuditShape
from noetl.operations.api_shapes import view_of
from noetl.store.audit import Audit


async def audit_page(audit: Audit, *, limit: int, before: int | None) -> AuditPage:
    """Rows, the newest first."""
    rows = await audit.newest(limit=limit, before=before)
    has_more = len(rows) == limit and rows[-1].seq > 1
    return AuditPage([view_of(AuditShape, row) for row in rows], str(rows[-1].seq) if has_more else None)
