"""The records of a server with the interface of a store, so that commands read both in the same way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.client import requests
from noetl.client.api_request import ApiError, event_of, seconds_of
from noetl.client.async_client import AsyncClient
from noetl.client.blocking_client import Client
from noetl.events.envelope import Event
from noetl.events.outcomes import Reference
from noetl.operations.api_shapes import ExecutionView, LiveOutputPage, TablePage
from noetl.store.contract import EventFilter, ExecutionRow, OrderRow
from noetl.store.results.files import decoded_body
from noetl.store.row_summary import RowSummary

_PAGE = 500
# The newest executions among which the beginning of an id is searched.
_AMONG = 500


class RemoteRecords:
    """The `Records` of a server. It reports no orders: only the server knows its leases and workers."""

    key_values = None

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def events(self, execution_id: str, *, after: int = 0, only: EventFilter | None = None) -> list[Event]:
        only = only or EventFilter()
        # The API returns the oldest first, so finding the newest means reading everything that matches.
        limit = None if only.newest else only.limit
        events: list[Event] = []
        while limit is None or len(events) < limit:
            page_size = _PAGE if limit is None else min(_PAGE, limit - len(events))
            page = await self._client.event_page(
                execution_id, after=after, limit=page_size, types=only.types, step=only.step
            )
            events += map(event_of, page.events)
            if page.next is None:
                break
            after = page.next
        return events[-only.limit :] if only.newest and only.limit is not None else events

    async def execution(self, execution_id: str) -> ExecutionRow | None:
        try:
            return _row(await self._client.get(execution_id))
        except ApiError as problem:
            # These statuses mean that no execution has this id.
            if problem.status in (400, 404, 422):
                return None
            raise

    async def executions(
        self, *, limit: int = 50, status: str | None = None, path: str | None = None, beyond: str | None = None
    ) -> list[ExecutionRow]:
        rows: list[ExecutionRow] = []
        while len(rows) < limit:
            page_size = min(_PAGE, limit - len(rows))
            page = await self._client.list(status=status, path=path, limit=page_size, cursor=beyond)
            rows += map(_row, page.executions)
            beyond = page.next
            if beyond is None:
                break
        return rows

    async def output(self, execution_id: str, *, after: str, step: str | None) -> LiveOutputPage | None:
        """The output of running tasks; None for a server without that route."""
        try:
            return await self._client.output(execution_id, after=after, step=step)
        except ApiError as problem:
            if problem.status == 404:
                return None
            raise

    async def registered(self, path: str) -> set[str] | None:
        return None  # the server has marked them

    async def positions(self, execution_ids: Collection[str]) -> dict[str, int]:
        rows = [await self.execution(execution_id) for execution_id in execution_ids]
        return {row.execution_id: row.last_seq for row in rows if row is not None}

    async def tally(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        async for row in self._all():
            counts[row.status] = counts.get(row.status, 0) + 1
        return counts

    async def _all(self) -> AsyncIterator[ExecutionView]:
        cursor: str | None = None
        while True:
            page = await self._client.list(limit=_PAGE, cursor=cursor)
            for row in page.executions:
                yield row
            if page.next is None:
                return
            cursor = page.next

    async def children(self, execution_id: str) -> list[ExecutionRow]:
        answer = await self._client.send(requests.execution_with_children(execution_id))
        return [_row(msgspec.convert(child, ExecutionView)) for child in answer.get("children", ())]

    async def begin_with(self, prefix: str, *, limit: int = 10) -> list[str]:
        page = await self._client.list(limit=_AMONG)
        return sorted(row.execution_id for row in page.executions if row.execution_id.startswith(prefix))[:limit]

    async def orders(self, execution_id: str) -> list[OrderRow]:
        return []

    async def net(self, net_hash: str) -> bytes:
        return await self._client.send(requests.net(net_hash))

    async def close(self) -> None:
        await self._client.close()


class ServerResults:
    """Large values of a server, one request each."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def put(self, value: Any) -> Reference:
        raise NotImplementedError("only workers store results")

    def load(self, reference: Reference) -> Any:
        try:
            body = self._client.send(requests.stored(reference.checksum))
        except ApiError as problem:
            raise ToolError("result.missing", f"the stored result {reference.key} cannot be read: {problem}") from None
        return decoded_body(reference, body)

    def table_page(self, checksum: str, *, offset: int, limit: int) -> TablePage:
        try:
            return self._client.send(requests.table_page(checksum, offset=offset, limit=limit))
        except ApiError as problem:
            raise ToolError("result.missing", f"the stored table {checksum} cannot be read: {problem}") from None


class ListedExecution(ExecutionRow, frozen=True, kw_only=True, gc=False):
    """A row of a server, which tells trials from runs of registered playbooks; no store does."""

    trial: str | None = None


def _row(view: ExecutionView) -> ListedExecution:
    return ListedExecution(
        execution_id=view.execution_id,
        trace_id=view.trace_id,
        path=view.path,
        name=view.name,
        net_hash=view.net_hash,
        status=view.status,
        last_seq=view.events,
        created_at=seconds_of(view.created_at),
        finished_at=seconds_of(view.finished_at) if view.finished_at is not None else None,
        parent_execution_id=view.parent_execution_id,
        wake_at=seconds_of(view.wake_at) if view.wake_at is not None else None,
        failed_iterations=view.failed_iterations,
        iterations=view.iterations,
        summary=RowSummary(
            seq=view.events,
            unrun=view.unrun_iterations,
            passed_over=view.passed_over_iterations,
            tasks=view.open_tasks,
            messages=view.awaited_messages,
            signals=view.awaited_signals,
            late=view.is_late,
            error=view.error_kind,
            step=view.failed_step,
        ),
        trial=view.trial,
    )
