"""Live streams: the events of one execution, and the rows of all as they change. Both resume by Last-Event-ID."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response
from starlette.types import Receive, Scope, Send

from noetl.events.envelope import Event
from noetl.events.executions import PlaybookProcessed
from noetl.events.legacy_names import Names, shown_event
from noetl.server.event_hub import is_set_within
from noetl.server.execution_control import execution_of
from noetl.server.execution_lists import execution_views
from noetl.server.guarded_router import GuardedRouter, openapi_docs
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services, identity_of, services_of
from noetl.store.contract import EventFilter

router = GuardedRouter(tags=["live"])
_PAGE = 500
# Of the log that a stream holds for its reader. A reader may take nothing, and each of hundreds holds one.
_PIECE_BYTES = 256 * 1024
# A row that changes often is sent at most this often, and so is the notice of live output.
_GATHER_S = 0.1
_OUTPUT_S = 0.25
_LAST = "last-event-id"
MEDIA_TYPE = "text/event-stream"
COMMENT = b": still here\n\n"


def event_bytes(data: Any, *, at: str | None = None, name: str | None = None) -> bytes:
    """The bytes of one event. A reader sends `at` as Last-Event-ID when it reconnects."""
    lines = [f"id: {at}"] if at is not None else []
    lines += [f"event: {name}"] if name is not None else []
    text = msgspec.json.encode(data).decode()  # has no line break of its own
    return ("\n".join([*lines, f"data: {text}"]) + "\n\n").encode()


class EventStream(Response):
    """Server-sent events for one reader. Comments keep proxies from closing a silent connection. A reader that does not
    read for `patience_s` is disconnected. `parts` are written as they come; None stands for a comment. `counted` is
    called with +1 and -1."""

    media_type = MEDIA_TYPE

    def __init__(self, parts: AsyncIterator[bytes | None], *, patience_s: float, counted: Callable[[int], Any]) -> None:
        super().__init__(None, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        # A body of unknown length: the header would end the stream at once.
        del self.headers["content-length"]
        self._parts, self._patience_s, self._counted = parts, patience_s, counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._counted(1)
        writing = asyncio.ensure_future(self._write(send))
        # A reader that leaves while nothing happens is noticed only here: writing would notice it with the
        # next event or heartbeat.
        leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, leaving):
                task.cancel()
            # Wait until both have stopped, so that `parts` is closed before the stream is counted out.
            await asyncio.wait({writing, leaving})
            self._counted(-1)
        if not writing.cancelled() and (problem := writing.exception()) is not None:
            raise problem

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with aclosing(self._parts) as parts:  # type: ignore[type-var]
                async for part in parts:
                    # A reader that takes nothing must not hold the stream forever.
                    async with asyncio.timeout(self._patience_s):
                        body = COMMENT if part is None else part
                        await send({"type": "http.response.body", "body": body, "more_body": True})
        except TimeoutError:
            return  # it does not read
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _stream(request: Request, parts: AsyncIterator[bytes | None]) -> Response:
    services = services_of(request)
    streams, own = services.listeners.meters.streams, services.listeners.usage.stream(str(identity_of(request).subject))

    def counted(number: int) -> None:
        streams.inc(number)
        own(number)

    return EventStream(parts, patience_s=services.settings.stream_patience_s, counted=counted)


@router.get(
    "/api/executions/{execution_id}/stream", **openapi_docs(media=MEDIA_TYPE, summary="Its events as they happen")
)
async def one(
    request: Request,
    execution_id: str,
    after: Annotated[int, Query(ge=0, le=2**62, description="Begin past this number.")] = 0,
    names: Names = "dotted",
) -> Response:
    """Each event's id is its `seq`. Ends with an event named `end` once the execution is over."""
    services = services_of(request)
    await execution_of(request, execution_id)
    if (last_id := request.headers.get(_LAST)) is not None:
        if not last_id.isdecimal() or len(last_id) > 18:
            raise ProblemDetails(400, "Last-Event-ID: it is the seq of an event")
        after = int(last_id)
    return _stream(request, _events(services, execution_id, after, names))


async def _events(services: Services, execution_id: str, after: int, names: Names) -> AsyncIterator[bytes | None]:
    with services.listeners.hub.listen(execution_id) as changed:
        yield None  # so that the reader knows at once that it is connected
        while not services.listeners.hub.is_closed:
            # Clear before reading: an event that is stored while the log is read sets it again, and the loop reads once
            # more.
            changed.clear()
            limit = _PAGE
            while page := await services.store.events(execution_id, after=after, only=EventFilter(limit=limit)):
                # Many events go out in one piece: a long log is read in a second that way.
                piece, count = _piece(page, names)
                after, last = page[count - 1].seq, page[count - 1].payload
                # Rows that did not fit are read again: twice as many as fitted, so that few are read in vain.
                limit = min(_PAGE, 2 * count)
                del page  # while the reader takes its time, the piece alone stays in memory
                yield piece
                if isinstance(last, PlaybookProcessed):
                    yield event_bytes({"status": last.status.value}, at=str(after), name="end")
                    return
            # An execution may be over without `PlaybookProcessed` past `after`: the reader resumed behind its last
            # event. Or it was deleted meanwhile.
            row = await services.store.execution(execution_id)
            if row is None or (row.finished_at is not None and row.last_seq <= after):
                yield event_bytes({"status": row.status if row is not None else "gone"}, name="end")
                return
            if not await is_set_within(changed, services.settings.stream_heartbeat_s):
                yield None


def _piece(page: list[Event], names: Names) -> tuple[bytes, int]:
    """The first events of a page as one piece, and how many they are: at least one."""
    parts: list[bytes] = []
    size = 0
    for event in page:
        parts.append(event_bytes(shown_event(event, names), at=str(event.seq)))
        size += len(parts[-1])
        if size >= _PIECE_BYTES:
            break
    return b"".join(parts), len(parts)


@router.get("/api/stream", **openapi_docs(media=MEDIA_TYPE, summary="Executions as they change"))
async def everything(request: Request) -> Response:
    """Each event is a row of the list. An event `output` names an execution with new live output (`…/output`), a few
    times a second at most. An event `reset` says that earlier changes are unknown here (a restart, a long absence):
    list the executions again. An event `still` is sent while nothing changes: refresh what no execution shows, such as
    workers. Changes by other servers appear within about a second."""
    services = services_of(request)
    return _stream(request, _rows(services, request.headers.get(_LAST)))


async def _rows(services: Services, last_id: str | None) -> AsyncIterator[bytes | None]:
    hub = services.listeners.hub
    # Numbers of changes start again with each process; the era identifies the process.
    era, _, number = (last_id or "").partition(".")
    at = int(number) if era == hub.era and number.isdecimal() and len(number) < 18 else None
    output_at = hub.output_number
    with hub.listen(None) as changed:
        if at is None or hub.since(at) is None:
            at = hub.number
            yield event_bytes({}, at=f"{hub.era}.{at}", name="reset") if last_id else None
        else:
            yield None
        while not hub.is_closed:
            changed.clear()
            changes = hub.since(at)
            if changes is None:
                at = hub.number
                yield event_bytes({}, at=f"{hub.era}.{at}", name="reset")
                continue
            for change in changes:
                at = change.number
                row = await services.store.execution(change.execution_id)
                if row is not None:
                    (view,) = await execution_views(services, [row])
                    yield event_bytes(view, at=f"{hub.era}.{at}")
            printed, output_at = hub.printed_since(output_at), hub.output_number
            for execution_id in printed:
                yield event_bytes({"execution_id": execution_id}, name="output")
            # Collect changes: an execution that commits a hundred times a second is sent as one row, not a hundred.
            if changes or printed:
                await asyncio.sleep(_GATHER_S if changes else _OUTPUT_S)
            elif not await is_set_within(changed, services.settings.stream_heartbeat_s):
                yield event_bytes({}, at=f"{hub.era}.{at}", name="still")
