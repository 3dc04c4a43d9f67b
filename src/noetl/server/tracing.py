"""Traces for OpenTelemetry: an execution is told from its log once it has ended, by the server that stored its end.

It is off unless OTEL_EXPORTER_OTLP_ENDPOINT (or its variant for traces) names a collector; the other variables of the
exporter hold as well. Whatever a collector does, no execution waits for it: what cannot be sent is dropped and counted.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from noetl.server.logs import log
from noetl.server.measured import Meters
from noetl.server.views.spans import TOLD, Span, Trace, trace_id_of
from noetl.store.contract import Commit, ExecutionRow, Only, Store

VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
HEADER = "traceparent"
_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_WAITING = 1_000
_PAGE = 1_000

Send = Callable[[ExecutionRow, Sequence[Span]], None]


def trace_of(traceparent: str | None) -> str | None:
    """The trace that a caller is in, if its header says so as W3C has it; anything else is ignored, as that wants."""
    found = _PARENT.fullmatch(traceparent.strip().lower()) if traceparent and len(traceparent) < 200 else None
    return found[1] if found and int(found[1], 16) and not found[0].startswith("ff") else None


class Tracing:
    """`send` may block; it is called in a thread."""

    def __init__(self, store: Store, meters: Meters, send: Send) -> None:
        self._store, self._meters, self._send = store, meters, send
        self._ended: asyncio.Queue[ExecutionRow] = asyncio.Queue(_WAITING)

    def stored(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            if commit.execution.finished_at is not None:
                try:
                    self._ended.put_nowait(commit.execution)
                except asyncio.QueueFull:
                    self._meters.untraced.inc()

    async def serve(self) -> None:
        """Go on until cancelled."""
        while True:
            row = await self._ended.get()
            try:
                spans = await self._spans(row)
                await asyncio.to_thread(self._send, row, spans)
                self._meters.traced.inc()
            except Exception as problem:
                self._meters.untraced.inc()
                log.warning("tracing", execution_id=row.execution_id, problem=str(problem)[:500])

    async def _spans(self, row: ExecutionRow) -> list[Span]:
        trace, after = Trace(row.execution_id), 0
        while page := await self._store.events(row.execution_id, after=after, only=Only(types=TOLD, limit=_PAGE)):
            trace.add(page)
            after = page[-1].seq
        return trace.spans()


def open_tracing(store: Store, meters: Meters) -> Tracing | None:
    """None where no collector is named, or its exporter is not installed."""
    if not any(os.environ.get(name) for name in VARIABLES):
        return None
    try:
        return Tracing(store, meters, _Exporter().send)
    except ImportError:
        log.warning("tracing", problem="a collector is named, and its exporter is not there: install noetl[otel]")
        return None


class _Exporter:
    def __init__(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource

        self._exporter = OTLPSpanExporter()
        self._resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME") or "noetl"})

    def send(self, row: ExecutionRow, spans: Sequence[Span]) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        trace_id = trace_id_of(row.trace_id)
        if self._exporter.export([self._made(trace_id, span) for span in spans]) is not SpanExportResult.SUCCESS:
            raise OSError("the collector did not take it")

    def _made(self, trace_id: int, span: Span) -> Any:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

        def context(span_id: int) -> SpanContext:
            return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

        attributes = span.attributes | ({"error.type": span.error} if span.error else {})
        return ReadableSpan(
            name=span.name,
            context=context(span.span_id),
            parent=context(span.parent_id) if span.parent_id is not None else None,
            resource=self._resource,
            attributes=attributes,
            status=Status(StatusCode.ERROR if span.error else StatusCode.OK),
            start_time=int(span.begun * 1e9),
            end_time=int((span.ended if span.ended is not None else span.begun) * 1e9),
        )
