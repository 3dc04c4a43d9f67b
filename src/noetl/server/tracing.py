"""Traces for OpenTelemetry: the server that stored the end of an execution makes its spans from the log.

It is off unless OTEL_EXPORTER_OTLP_ENDPOINT (or its variant for traces) names a collector; the other variables of the
exporter hold as well. No execution waits for a collector: spans that cannot be sent are dropped and counted. There is
one span for the execution, one for each step run and one for each task run. Span ids follow from those of the log, so
that a trace that is sent twice is the same trace. No payload is in them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.errors import BackendError
from noetl.base.redaction import MASK
from noetl.events.envelope import Event, TraceParent, span_id_of, trace_id_of
from noetl.events.projection.projection import SIDE_RUN_EVENTS, STEP_EVENTS, TASK_EVENTS, Projection
from noetl.events.projection.views import StepRunView, TaskRunView
from noetl.events.steps import StepScheduled
from noetl.events.tasks import TaskStarted
from noetl.server.logs import log
from noetl.server.metrics import Meters
from noetl.store.contract import Commit, EventFilter, ExecutionRow, Store

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter


TRACED_TYPES = ("playbook.execution_requested", "playbook.processed", *STEP_EVENTS, *TASK_EVENTS, *SIDE_RUN_EVENTS)
MOST = 2_000  # spans of one execution: a trace with every item of a long loop is unreadable


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Times are seconds; `error` is the kind of what went wrong."""

    span_id: int
    parent_id: int | None
    name: str
    begun: float
    ended: float | None = None
    error: str | None = None
    attributes: dict[str, str | int] = {}


class Trace:
    """Events of one execution in their order; `spans` once there are no more. `caller` is the span of the requesting
    program."""

    def __init__(self, execution_id: str, caller: int | None = None) -> None:
        self._execution_id, self._caller = execution_id, caller
        self._projection = Projection()
        self._views: dict[str, tuple[str, StepRunView | TaskRunView]] = {}  # with the run that each belongs to
        # runs past MOST; the root span says how many
        self._left_out = 0

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            view, payload, run_id = self._projection.take(event), event.payload, event.step_run_id
            if view is None or run_id is None:
                continue
            if isinstance(payload, StepScheduled):
                self._keep(run_id, self._execution_id, view)
            elif isinstance(payload, TaskStarted):
                self._keep(payload.task_run_id, run_id, view.pipeline.open[payload.task_run_id])

    def _keep(self, key: str, parent: str, view: StepRunView | TaskRunView) -> None:
        # The first ones are kept: a parent comes before its children, so none refers to a span that is missing.
        if len(self._views) < MOST:
            self._views.setdefault(key, (parent, view))
        elif key not in self._views:
            self._left_out += 1

    def spans(self) -> list[TraceSpan]:
        root = self._root()
        return [root, *(_span(key, parent, view, root.ended) for key, (parent, view) in self._views.items())]

    def _root(self) -> TraceSpan:
        projection = self._projection
        attributes: dict[str, str | int] = {"noetl.execution_id": self._execution_id}
        if projection.parent_execution_id:
            attributes["noetl.parent_execution_id"] = projection.parent_execution_id
        if projection.finished_at is not None:
            attributes["noetl.status"] = projection.status
        if self._left_out:
            attributes["noetl.spans_left_out"] = self._left_out
        return TraceSpan(
            span_id=span_id_of(self._execution_id),
            parent_id=self._caller,
            name=projection.path or "execution",
            begun=projection.started_at or 0.0,
            ended=projection.finished_at,
            error=projection.error.kind if projection.error is not None else None,
            attributes=attributes,
        )


def _span(key: str, parent: str, view: StepRunView | TaskRunView, end: float | None) -> TraceSpan:
    attributes: dict[str, str | int]
    if isinstance(view, StepRunView):
        name, begun, ended = view.step, view.scheduled_at, view.finished_at
        attributes = {"noetl.step": name, "noetl.step_run_id": key}
    else:
        name, begun, ended = view.task, view.started_at, view.reported_at
        attributes = {"noetl.task": name, "noetl.kind": view.kind, "noetl.attempt": view.attempt}
    return TraceSpan(
        span_id=span_id_of(key),
        parent_id=span_id_of(parent),
        name=name,
        begun=begun,
        # A run that was cut off by the end of its execution has no end of its own, and a span needs one.
        ended=end if ended is None else ended,
        error=view.error.kind if view.error is not None else None,
        attributes=attributes,
    )


VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_STANDARD_PATH = "/v1/traces"
HEADER = "traceparent"
CALLER = "caller"  # on the key-value table, by execution: the span it was asked for from
# As long as executions are kept by default.
_REMEMBERED_S = 90 * 86_400.0
_WAITING = 1_000
_PAGE = 1_000

Send = Callable[[ExecutionRow, Sequence[TraceSpan]], None]


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
                # The collector is slower than the executions; memory must not grow with it.
                except asyncio.QueueFull:
                    self._meters.untraced.inc()

    async def remember_caller(self, execution_id: str, caller: TraceParent, at: float) -> None:
        """Store the calling span of an execution until its trace is sent. The log has only the trace id, and any server
        may store the end."""
        with suppress(BackendError):  # no execution waits for its trace
            await self._store.key_values.put(CALLER, execution_id, str(caller.span_id).encode(), over=0, at=at)

    async def sweep(self, now: float) -> None:
        """Delete callers of executions whose server stopped before it could send the trace."""
        await self._store.key_values.sweep(CALLER, before=now - _REMEMBERED_S)

    async def serve(self) -> None:
        """Send traces until cancelled."""
        while True:
            row = await self._ended.get()
            try:
                spans = await self._spans(row)
                await asyncio.to_thread(self._send, row, spans)
                self._meters.traced.inc()
                await self._store.key_values.delete(CALLER, row.execution_id)
            except Exception as problem:
                self._meters.untraced.inc()
                log.warning("tracing", execution_id=row.execution_id, problem=_without_address(str(problem))[:500])

    async def _spans(self, row: ExecutionRow) -> list[TraceSpan]:
        caller = await self._store.key_values.get(CALLER, row.execution_id)
        trace, after = Trace(row.execution_id, int(caller.body) if caller is not None else None), 0
        while page := await self._store.events(
            row.execution_id, after=after, only=EventFilter(types=TRACED_TYPES, limit=_PAGE)
        ):
            trace.add(page)
            after = page[-1].seq
        return trace.spans()


def open_tracing(store: Store, meters: Meters) -> Tracing | None:
    """The tracing of a server; None if no collector is configured, or the exporter is not installed."""
    if not any(os.environ.get(name) for name in VARIABLES):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        logging.getLogger(OTLPSpanExporter.__module__).addFilter(_mask_address)
        return Tracing(store, meters, OtlpSender(OTLPSpanExporter()).send)
    except ImportError:
        log.warning("tracing", problem='a collector is named, but not its exporter: pip install "noetl-engine[otel]"')
        return None


def _mask_address(record: logging.LogRecord) -> bool:
    """A filter for the log of the exporter, which shows the path and the query of the collector's address."""
    record.msg, record.args, record.exc_info = _without_address(record.getMessage()), (), None
    return True


def _without_address(text: str) -> str:
    """The text without what may be a secret in the address of the collector: its login, path and query. Some services
    take their key there."""
    for name in VARIABLES:
        address = os.environ.get(name, "")
        try:
            parts = urlsplit(address)
            found = [parts.netloc.rpartition("@")[0], parts.query, parts.path.rstrip("/")]
        except ValueError:
            found = [address]
        for secret in found:
            if len(secret) > 1 and secret != _STANDARD_PATH:
                text = text.replace(secret, MASK)
    return text


class OtlpSender:
    """Spans as OpenTelemetry has them, given to one of its exporters."""

    def __init__(self, exporter: SpanExporter) -> None:
        from opentelemetry.sdk.resources import Resource

        self._exporter = exporter
        self._resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME") or "noetl"})

    def send(self, row: ExecutionRow, spans: Sequence[TraceSpan]) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        trace_id = trace_id_of(row.trace_id)
        if (
            self._exporter.export([self._exported_span(trace_id, span, is_root=span is spans[0]) for span in spans])
            is not SpanExportResult.SUCCESS
        ):
            raise OSError("the collector did not accept it")

    def _exported_span(self, trace_id: int, span: TraceSpan, *, is_root: bool) -> Any:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

        def context(span_id: int, *, is_remote: bool = False) -> SpanContext:
            return SpanContext(trace_id, span_id, is_remote=is_remote, trace_flags=TraceFlags(TraceFlags.SAMPLED))

        attributes = span.attributes | ({"error.type": span.error} if span.error else {})
        return ReadableSpan(
            name=span.name,
            context=context(span.span_id),
            # The parent of the root is a span of another program; all others are ours.
            parent=context(span.parent_id, is_remote=is_root) if span.parent_id is not None else None,
            resource=self._resource,
            attributes=attributes,
            status=Status(StatusCode.ERROR if span.error else StatusCode.OK),
            start_time=int(span.begun * 1e9),
            # Nanoseconds, as OpenTelemetry counts.
            end_time=int((span.ended if span.ended is not None else span.begun) * 1e9),
        )
