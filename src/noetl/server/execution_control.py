"""Executions that a request means, one by its id or many by what they have in common; pause, resume and cancel of them
(SRV-07, SRV-11).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Literal

import msgspec
from fastapi import Request

from noetl.base.clock import moment
from noetl.base.crash_points import crash_point
from noetl.base.errors import NoetlError
from noetl.control.outside.requests import command_for
from noetl.events.orders import ReportResult
from noetl.operations.api_shapes import Steered
from noetl.operations.executions import steered
from noetl.server.problem_details import ProblemDetails, unknown
from noetl.server.services import Services, services_of
from noetl.store.contract import ExecutionRow

Status = Literal["running", "paused", "completed", "failed", "cancelled"]
# What an id may look like at all: anything else is refused before the store is asked.
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
        # By the last id and not by an offset: new executions arrive at the front meanwhile, and an offset would show
        # some twice.
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


Action = Literal["pause", "resume", "cancel"]
MOST = 1_000  # executions of one bulk request
_DONE = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`filter` or `execution_ids` say which; with `dry_run` nothing is done. `compensate` is for cancel."""

    action: Action
    filter: Filter | None = None
    execution_ids: list[str] = []
    reason: str | None = None
    compensate: bool = False
    dry_run: bool = False


class BulkItem(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome`: the action's past tense | unchanged | over | failed | would."""

    execution_id: str
    outcome: str


class Bulk(msgspec.Struct, frozen=True, kw_only=True):
    """`more`: there are others that fit; ask again."""

    action: str
    dry_run: bool
    matched: int
    changed: int
    more: bool
    executions: list[BulkItem]


async def steer(
    services: Services, row: ExecutionRow, action: Action, reason: str | None, *, compensate: bool = False
) -> ReportResult:
    wanted = "compensate" if compensate and action == "cancel" else action
    command = command_for(wanted, at=services.clock.now(), reason=reason)
    crash_point(f"{action}.before")
    verdict = await services.control.executions.control(row.execution_id, command)
    crash_point(f"{action}.after")
    return verdict


async def steer_one(
    services: Services, row: ExecutionRow, action: Action, reason: str | None, *, compensate: bool = False
) -> Steered:
    verdict = await steer(services, row, action, reason, compensate=compensate)
    return await steered(services.store, row, action, verdict)


async def in_bulk(services: Services, asked: BulkRequest) -> Bulk:
    rows, more = await _chosen(services, asked)
    items: list[BulkItem] = []
    for row in rows:
        outcome = _would(row) if asked.dry_run else await _outcome(services, row, asked)
        items.append(BulkItem(execution_id=row.execution_id, outcome=outcome))
    changed = sum(item.outcome in (_DONE[asked.action], "would") for item in items)
    return Bulk(
        action=asked.action, dry_run=asked.dry_run, matched=len(items), changed=changed, more=more, executions=items
    )


async def _chosen(services: Services, asked: BulkRequest) -> tuple[list[ExecutionRow], bool]:
    if bool(asked.execution_ids) == (asked.filter is not None):
        raise ProblemDetails(422, "say which executions by filter, or by execution_ids")
    if asked.filter is None:
        if len(asked.execution_ids) > MOST:
            raise ProblemDetails(422, f"execution_ids: at most {MOST} at a time")
        # Each once, in the order they were named; ids that nobody knows are left out, as they may have been deleted.
        found = [await services.store.execution(one) for one in dict.fromkeys(asked.execution_ids)]
        return [row for row in found if row is not None], False
    if asked.filter == Filter() and not asked.dry_run:  # a field that was forgotten must not stop everybody's work
        raise ProblemDetails(422, 'filter: an empty one is every execution; say so with {"path": "*"}')
    rows: list[ExecutionRow] = []
    async for row in matching(services, asked.filter):
        if row.finished_at is not None:
            continue
        if len(rows) == MOST:
            return rows, True
        rows.append(row)
    return rows, False


def _would(row: ExecutionRow) -> str:
    return "would" if row.finished_at is None else "over"


async def _outcome(services: Services, row: ExecutionRow, asked: BulkRequest) -> str:
    """One that cannot be steered does not keep the others from it."""
    try:
        verdict = await steer(services, row, asked.action, asked.reason, compensate=asked.compensate)
    except NoetlError:
        return "failed"
    if verdict is ReportResult.ACCEPTED:
        return _DONE[asked.action]
    return "unchanged" if verdict is ReportResult.DUPLICATE else "over"
