"""The route of a playbook's last runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import unknown
from noetl.server.services import services_of
from noetl.server.views.run_history import RunHistory, run_history

router = GuardedRouter(tags=["catalogue"])


@router.get("/api/catalog/{path:path}/runs", **shows(RunHistory, summary="The last runs of a playbook, step by step"))
async def runs(request: Request, path: str, limit: Annotated[int, Query(ge=1, le=100)] = 50) -> Response:
    """How each ended and how long its steps took, for trends and for comparing."""
    services = services_of(request)
    if not await services.store.catalog.versions(path):
        raise unknown("playbook", path)
    return Json(await run_history(services, path, limit))
