"""A server's records, read as if they were a store's: whoever looks at an execution need not know where it is kept."""

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
from noetl.store.contract import ExecutionRow, OrderRow, SingleRow
from noetl.store.results.files import decoded_body

_PAGE = 500
_AMONG = 500  # the newest executions, among which the beginning of an id is looked for


class RemoteRecords:
    """`Records` of a server. Whose leases orders are under, and who works there, is its own business."""

    key_values = None

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def events(self, execution_id: str, *, after: int = 0, only: SingleRow | None = None) -> list[Event]:
        only = only or SingleRow()
        limit = None if only.newest else only.limit
        found: list[Event] = []
        while limit is None or len(found) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
            page = await self._client.event_page(
                execution_id, after=after, limit=wanted, types=only.types, step=only.step
            )
            found += map(event_of, page.events)
            if page.next is None:
                break
            after = page.next
        return found[-only.limit :] if only.newest and only.limit is not None else found

    async def execution(self, execution_id: str) -> ExecutionRow | None:
        try:
            return _row(await self._client.get(execution_id))
        except ApiError as problem:
            if problem.status in (400, 404, 422):  # nothing there can be called that
                return None
            raise

    async def executions(
        self, *, limit: int = 50, status: str | None = None, path: str | None = None, beyond: str | None = None
    ) -> list[ExecutionRow]:
        found: list[ExecutionRow] = []
        while len(found) < limit:
            wanted = min(_PAGE, limit - len(found))
            page = await self._client.list(status=status, path=path, limit=wanted, cursor=beyond)
            found += map(_row, page.executions)
            beyond = page.next
            if beyond is None:
                break
        return found

    async def output(self, execution_id: str, *, after: str, step: str | None) -> LiveOutputPage | None:
        """What tasks print while they run; None of a server that does not tell."""
        try:
            return await self._client.output(execution_id, after=after, step=step)
        except ApiError as problem:
            if problem.status == 404:
                return None
            raise

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
        told = await self._client.send(requests.execution_with_children(execution_id))
        return [_row(msgspec.convert(child, ExecutionView)) for child in told.get("children", ())]

    async def begin_with(self, prefix: str, *, limit: int = 10) -> list[str]:
        page = await self._client.list(limit=_AMONG)
        return sorted(one.execution_id for one in page.executions if one.execution_id.startswith(prefix))[:limit]

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


def _row(told: ExecutionView) -> ExecutionRow:
    return ExecutionRow(
        execution_id=told.execution_id,
        trace_id=told.trace_id,
        path=told.path,
        name=told.name,
        net_hash=told.net_hash,
        status=told.status,
        last_seq=told.events,
        created_at=seconds_of(told.created_at),
        finished_at=seconds_of(told.finished_at) if told.finished_at is not None else None,
        parent_execution_id=told.parent_execution_id,
        wake_at=seconds_of(told.wake_at) if told.wake_at is not None else None,
    )
