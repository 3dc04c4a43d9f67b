"""Traces: one per execution, told from its log to a collector that nobody waits for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from noetl.server.tracing import trace_of
from tests.cli.processes_here import until
from tests.running_here import Scripted
from tests.server.talking import talking

CALLER = "0af7651916cd43dd8448eb211c80319c"
FAILS = """
workflow:
  - step: start
    tool: [{name: one, kind: python, code: "result = 1"}]
    next: {arcs: [{step: two}]}
  - step: two
    tool: [{name: other, kind: python, code: "raise ValueError"}]
"""


@contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    got: list[Any] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if status == 200:
                got.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = HTTPServer(("127.0.0.1", 0), Taking)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        server.server_close()


async def test_an_execution_is_one_trace_with_its_steps_and_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as (url, got):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        async with talking(tools={"python": Scripted(one=1, other=ValueError("secret words"))}) as talk:
            path = (await talk.register(FAILS))["path"]
            headers = {"traceparent": f"00-{CALLER}-b7ad6b7169203331-01"}
            asked = {"path": path, "wait": 20}
            started = (await talk.client.post("/api/executions", json=asked, headers=headers)).json()
            import asyncio

            await asyncio.to_thread(until, lambda: got)
    [request] = got
    spans = {span.name: span for span in request.resource_spans[0].scope_spans[0].spans}

    assert started["trace_id"] == CALLER
    assert set(spans) == {path, "start", "one", "two", "other"}
    assert {span.trace_id.hex() for span in spans.values()} == {CALLER}
    assert spans["start"].parent_span_id == spans["two"].parent_span_id == spans[path].span_id
    assert spans["other"].parent_span_id == spans["two"].span_id
    assert spans[path].status.code == spans["other"].status.code == 2
    assert spans["one"].status.code == 1
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano > 0 for span in spans.values())
    assert b"secret words" not in request.SerializeToString()


async def test_without_a_collector_nothing_is_sent_and_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    async with talking() as talk:
        assert talk.services.tracing is None
        await talk.ran()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (f"00-{CALLER}-b7ad6b7169203331-01", CALLER),
        (f"00-{CALLER.upper()}-b7ad6b7169203331-01", CALLER),
        (f"cc-{CALLER}-b7ad6b7169203331-01-later", CALLER),
        (f"ff-{CALLER}-b7ad6b7169203331-01", None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
        ("00-short-b7ad6b7169203331-01", None),
        ("x" * 1000, None),
        ("", None),
        (None, None),
    ],
)
def test_a_callers_trace_is_told_by_its_header(given: str | None, found: str | None) -> None:
    assert trace_of(given) == found
