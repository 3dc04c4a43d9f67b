"""Finding executions: one by its id, many by what they have in common."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Literal

import msgspec
from fastapi import Request

from noetl.base.clock import moment
from noetl.server.problem_details import ProblemDetails, unknown
from noetl.server.services import Services, services_of
from noetl.store.contract import ExecutionRow

Status = Literal["running", "paused", "completed", "failed", "cancelled"]
_ID = re.compile(r"[\w.:-]{1,100}")
_PAGE = 500


class Filter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path` may hold `*`. `since` and `until` bound the time of creation (RFC 3339). `text` is looked for in id, path
    and name, ASCII letters of either case. `labels` are those of the playbook's metadata."""

    status: Status | None = None
    path: str | None = None
    since: str | None = None
    until: str | None = None
    text: str | None = None
    labels: dict[str, str] = {}


async def execution_of(request: Request, execution_id: str) -> ExecutionRow:
    """The row of an execution. Problem 404 when there is none."""
    row = await services_of(request).store.execution(execution_id) if _ID.fullmatch(execution_id) else None
    if row is None:
        raise unknown("execution", execution_id)
    return row


async def matching(
    services: Services, wanted: Filter, beyond: str | None = None, *, about: int = _PAGE
) -> AsyncIterator[ExecutionRow]:
    """Executions that fit, the newest first, after the one that `beyond` names. `about` so many are wanted."""
    filters = {
        "status": wanted.status,
        "path": wanted.path,
        "since": None if wanted.since is None else moment(wanted.since, "since"),
        "until": None if wanted.until is None else moment(wanted.until, "until"),
        "text": wanted.text or None,
        "labels": wanted.labels,
    }
    page = min(about, _PAGE)
    while True:
        rows = await services.store.executions(limit=page, beyond=beyond, **filters)  # type: ignore[arg-type]
        for row in rows:
            yield row
        if len(rows) < page:
            return
        beyond = rows[-1].execution_id


def labelled(texts: list[str] | None) -> dict[str, str]:
    """Labels as a query writes them, `key=value` each. Problem 422 for what is none."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ProblemDetails(422, f'label: "{text[:100]}" is none; write label=team=sales')
        found[key] = value
    return found


async def checked_cursor(services: Services, cursor: str | None) -> str | None:
    if cursor is not None and (not _ID.fullmatch(cursor) or await services.store.execution(cursor) is None):
        raise ProblemDetails(422, "cursor: it is none that was given out here")
    return cursor
