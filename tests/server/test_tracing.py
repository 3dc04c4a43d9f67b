"""Traces: one per execution, told from its log to a collector that nobody waits for."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from noetl.events.envelope import caller_of
from noetl.server import services
from noetl.server.tracing import OtlpSender, Tracing
from tests.engine_script import playbook
from tests.playbook_runs import Scripted
from tests.server.talking import HELLO, talking
from tests.servers.http import HttpServer, Reply, reply
from tests.waiting import until

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
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")  # past it the exporter would send the same again
        async with talking(tools={"python": Scripted(one=1, other=ValueError("secret words"))}) as talk:
            path = (await talk.register(FAILS))["path"]
            headers = {"traceparent": f"00-{CALLER}-b7ad6b7169203331-01"}
            asked = {"path": path, "wait": 60}
            started = (await talk.client.post("/api/executions", json=asked, headers=headers)).json()
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


async def test_without_a_collector_nothing_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    async with talking() as talk:
        assert talk.services.listeners.tracing is None
        await talk.ran()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (f"00-{CALLER}-b7ad6b7169203331-01", CALLER),
        (f"00-{CALLER.upper()}-b7ad6b7169203331-01", CALLER),
        (f"cc-{CALLER}-b7ad6b7169203331-01-later", CALLER),
        (f"ff-{CALLER}-b7ad6b7169203331-01", None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
        (f"00-{CALLER}-{'0' * 16}-01", None),
        ("00-short-b7ad6b7169203331-01", None),
        ("x" * 1000, None),
        ("", None),
        (None, None),
    ],
)
def test_the_trace_of_a_caller_is_read_from_its_header(given: str | None, found: str | None) -> None:
    caller = caller_of(given)

    assert (caller.trace_id if caller is not None else None) == found


CALLS = """
workflow:
  - step: start
    tool:
      - {name: plain, kind: http, url: "URL/a"}
      - {name: own, kind: http, url: "URL/b", headers: {Traceparent: mine}}
      - {name: sent_on, kind: http, url: "URL/c"}
"""
ELSEWHERE = Reply(302, headers={"location": "/a"})


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Those that were told, by OpenTelemetry's own exporter into memory."""
    exporter = InMemorySpanExporter()
    monkeypatch.setattr(
        services, "open_tracing", lambda store, meters: Tracing(store, meters, OtlpSender(exporter).send)
    )
    return exporter


async def told(exporter: InMemorySpanExporter) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while not (found := exporter.get_finished_spans()):
            await asyncio.sleep(0.01)
    return {span.name: span for span in found}


@pytest.mark.req("TOOL-02")
async def test_a_tool_request_carries_the_span_of_its_task_run(spans: InMemorySpanExporter) -> None:
    """The span of its task run, as the trace tells it later; what an author writes wins."""
    async with HttpServer({"/a": reply(), "/b": reply(), "/c": ELSEWHERE}) as server, talking() as talk:
        path = (await talk.register(CALLS.replace("URL", server.url)))["path"]
        headers = {"traceparent": f"00-{CALLER}-b7ad6b7169203331-01"}
        asked = {"path": path, "wait": 60}
        started = (await talk.client.post("/api/executions", json=asked, headers=headers)).json()
        found = await told(spans)
        async with asyncio.timeout(60):  # nothing is remembered of a trace that was told
            while await talk.services.store.key_values.list("caller"):
                await asyncio.sleep(0.01)

    assert started["status"] == "completed", started
    plain, own, first, then = [request.headers["traceparent"] for request in server.requests]
    assert plain == f"00-{CALLER}-{found['plain'].context.span_id:016x}-01"
    assert own == "mine"
    assert first == then == f"00-{CALLER}-{found['sent_on'].context.span_id:016x}-01"
    assert found["plain"].parent.span_id == found["start"].context.span_id
    root = found[path]
    assert (root.parent.span_id, root.parent.is_remote) == (0xB7AD6B7169203331, True)
    assert found["start"].parent.span_id == root.context.span_id
    assert not found["start"].parent.is_remote


async def test_a_draft_belongs_to_the_span_of_its_request(spans: InMemorySpanExporter) -> None:
    async with talking() as talk:
        headers = {"traceparent": f"00-{CALLER}-b7ad6b7169203331-01"}
        await talk.post("/api/executions/draft", {"source": playbook(HELLO)}, 201, headers=headers)
        found = await told(spans)

    assert found["tests/test"].parent.span_id == 0xB7AD6B7169203331


async def test_an_execution_without_a_caller_trace_starts_its_own(spans: InMemorySpanExporter) -> None:
    async with talking() as talk:
        execution_id = await talk.ran()
        found = await told(spans)

    assert found["tests/test"].parent is None
    assert f"{found['tests/test'].context.trace_id:032x}" == execution_id.replace("-", "")


async def test_without_tracing_requests_carry_no_span() -> None:
    async with HttpServer({"*": reply()}) as server, talking() as talk:
        await talk.ran(CALLS.replace("URL", server.url))

    assert [request.headers.get("traceparent") for request in server.requests] == [None, "mine", None]


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
async def test_no_secret_of_the_address_of_a_collector_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    address = "http://ann:canary-1@127.0.0.1:4318/canary-2/v1?api-key=canary-3"
    monkeypatch.setenv(name, address)
    exporter = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")

    def fails(*_: Any) -> None:
        exporter.warning("Transient error %s while exporting", OSError(f"no connection: {address}/traces"))
        raise OSError(f"no such place: {address}")

    monkeypatch.setattr(OtlpSender, "send", fails)
    async with talking() as talk:
        await talk.register(HELLO)
        await talk.start()
        meters = talk.services.listeners.meters
        await asyncio.to_thread(until, lambda: b"noetl_traces_dropped_total 1.0" in meters.text())

    told = caplog.text + str([record.__dict__ for record in caplog.records])
    assert "Transient error no connection: http://***@127.0.0.1:4318***?***/traces while exporting" in told
    assert "no such place: http://***@127.0.0.1:4318***?***" in told
    assert "canary" not in told
