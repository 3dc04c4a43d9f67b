"""Finding executions by id or by filter, and pausing, resuming and cancelling them (SRV-07, SRV-11)."""

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
from noetl.operations.executions import control_result
from noetl.server.problem_details import ProblemDetails, not_found
from noetl.server.services import Services, services_of
from noetl.store.contract import ExecutionQuery, ExecutionRow

Status = Literal["running", "paused", "completed", "failed", "cancelled"]
# The shape of an id. Any other text is refused without a query.
_ID = re.compile(r"[\w.:-]{1,100}")
_PAGE = 500


class Filter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path` may hold `*`. `since` and `until` bound the time of creation (RFC 3339). `text` is looked for in id, path
    and name, ASCII letters of either case. `labels` are those of the playbook's metadata. `error` is the kind of error
    that it failed with, in `step`."""

    status: Status | None = None
    path: str | None = None
    since: str | None = None
    until: str | None = None
    text: str | None = None
    labels: dict[str, str] = {}
    error: str | None = None
    step: str | None = None


async def execution_of(request: Request, execution_id: str) -> ExecutionRow:
    """The row of an execution; 404 if there is none."""
    row = await services_of(request).store.execution(execution_id) if _ID.fullmatch(execution_id) else None
    if row is None:
        raise not_found("execution", execution_id)
    return row


async def matching_executions(
    services: Services, wanted: Filter, beyond: str | None = None, *, about: int = _PAGE
) -> AsyncIterator[ExecutionRow]:
    """Executions that match, the newest first, after the execution `beyond`. The caller reads about `about` of them."""
    filters: ExecutionQuery = {
        "status": wanted.status,
        "path": wanted.path,
        "since": None if wanted.since is None else moment(wanted.since, "since"),
        "until": None if wanted.until is None else moment(wanted.until, "until"),
        "text": wanted.text or None,
        "labels": wanted.labels,
        "error": wanted.error,
        "step": wanted.step,
    }
    page = min(about, _PAGE)
    while True:
        rows = await services.store.executions(limit=page, beyond=beyond, **filters)
        for row in rows:
            yield row
        if len(rows) < page:
            return
        # Continue after the last id, not at an offset: new executions arrive at the front meanwhile, and an offset
        # would return some rows twice.
        beyond = rows[-1].execution_id


def parse_labels(texts: list[str] | None) -> dict[str, str]:
    """The labels of a query, each written `key=value`; 422 for any other text."""
    labels: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ProblemDetails(422, f'label: "{text[:100]}" is not a label; write label=team=sales')
        labels[key] = value
    return labels


async def checked_cursor(services: Services, cursor: str | None) -> str | None:
    if cursor is not None and (not _ID.fullmatch(cursor) or await services.store.execution(cursor) is None):
        raise ProblemDetails(422, "cursor: this is not a cursor of this list")
    return cursor


Action = Literal["pause", "resume", "cancel"]
MOST = 1_000  # executions of one bulk request
_DONE = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`filter` or `execution_ids` select executions; with `dry_run` nothing is changed. `compensate` is for cancel."""

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
    """`more`: further executions match; repeat the request for them."""

    action: str
    dry_run: bool
    matched: int
    changed: int
    more: bool
    executions: list[BulkItem]


async def control_execution(
    services: Services, row: ExecutionRow, action: Action, reason: str | None, *, actor: str, compensate: bool = False
) -> ReportResult:
    wanted = "compensate" if compensate and action == "cancel" else action
    command = command_for(wanted, at=services.clock.now(), reason=reason, actor=actor)
    # Tests crash the process here and below: the request must be either recorded or lost as a whole.
    crash_point(f"{action}.before")
    verdict = await services.control.executions.control(row.execution_id, command)
    crash_point(f"{action}.after")
    return verdict


async def control_one(
    services: Services, row: ExecutionRow, action: Action, reason: str | None, *, actor: str, compensate: bool = False
) -> Steered:
    verdict = await control_execution(services, row, action, reason, actor=actor, compensate=compensate)
    return await control_result(services.store, row, action, verdict)


async def control_in_bulk(services: Services, request: BulkRequest, *, actor: str) -> Bulk:
    rows, more = await _selected_rows(services, request)
    items: list[BulkItem] = []
    for row in rows:
        outcome = _dry_run_outcome(row) if request.dry_run else await _outcome(services, row, request, actor)
        items.append(BulkItem(execution_id=row.execution_id, outcome=outcome))
    changed = sum(item.outcome in (_DONE[request.action], "would") for item in items)
    return Bulk(
        action=request.action, dry_run=request.dry_run, matched=len(items), changed=changed, more=more, executions=items
    )


async def _selected_rows(services: Services, request: BulkRequest) -> tuple[list[ExecutionRow], bool]:
    if bool(request.execution_ids) == (request.filter is not None):
        raise ProblemDetails(422, "select executions either by filter or by execution_ids")
    if request.filter is None:
        if len(request.execution_ids) > MOST:
            raise ProblemDetails(422, f"execution_ids: at most {MOST} at a time")
        # Each id once, in the given order. Unknown ids are left out: those executions may have been deleted.
        looked_up = [
            await services.store.execution(execution_id) for execution_id in dict.fromkeys(request.execution_ids)
        ]
        return [row for row in looked_up if row is not None], False
    # A forgotten field must not stop all executions.
    if request.filter == Filter() and not request.dry_run:
        raise ProblemDetails(
            422, 'filter: an empty filter selects every execution; write {"path": "*"} if you mean that'
        )
    rows: list[ExecutionRow] = []
    async for row in matching_executions(services, request.filter):
        if row.finished_at is not None:
            continue
        if len(rows) == MOST:
            return rows, True
        rows.append(row)
    return rows, False


def _dry_run_outcome(row: ExecutionRow) -> str:
    return "would" if row.finished_at is None else "over"


async def _outcome(services: Services, row: ExecutionRow, request: BulkRequest, actor: str) -> str:
    """The outcome for one execution. A failure does not stop the others."""
    try:
        verdict = await control_execution(
            services, row, request.action, request.reason, actor=actor, compensate=request.compensate
        )
    except NoetlError:
        return "failed"
    if verdict is ReportResult.ACCEPTED:
        return _DONE[request.action]
    return "unchanged" if verdict is ReportResult.DUPLICATE else "over"
