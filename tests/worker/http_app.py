"""The worker's side of a server's API over a real control plane, for tests of workers that are elsewhere.

What is refused, delayed or lost is up to the test: `faults` are taken one by one before a request is answered.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import uvicorn
from fastapi import FastAPI, Request, Response

from noetl.base.clock import SystemClock
from noetl.base.errors import ToolError
from noetl.base.ids import uuid7
from noetl.control.assembly import assemble
from noetl.control.commit.effects import Listeners
from noetl.control.secrets.release import SecretRelease
from noetl.events.envelope import Event
from noetl.events.orders import PlaybookCall, Turn, TurnAnswer, read_turn
from noetl.events.outcomes import Reference
from noetl.events.secret_materials import Ask
from noetl.events.tokens import TokenClaimed
from noetl.net.net import to_json
from noetl.operations.embedded import compiled
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from tests.narrowing import payloads, present


class WireServer:
    """`turns` and `requests` are what came; `url` is where it listens."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.turns: list[Turn] = []
        self.requests: list[tuple[str, str]] = []
        self.workers: dict[str, dict[str, Any]] = {}
        self.beats: list[dict[str, int]] = []
        self.lost: set[str] = set()
        self.faults: deque[Callable[[Request], Response | None]] = deque()
        self.unreadable: Callable[[Turn], bool] = lambda _: False
        self.waiting = 0  # turns that are not answered yet
        self.url = ""
        self.results = MemoryResults()
        self.wakeups = MemoryWakeups()
        self.keychain: Any = None
        self.executions, self.for_workers, *_ = assemble(
            MemoryStore(),
            self.results,
            self.wakeups,
            SystemClock(),
            listeners=Listeners(watch=self.events.extend),
            secret_release=SecretRelease(lambda: self.keychain),
        )

    async def run(self, playbook: str, payload: dict[str, Any] | None = None) -> Any:
        """Start it, and give its execution once it is over."""
        execution_id = await self.start(playbook, payload)
        async with asyncio.timeout(60):
            return await self.executions.ended_execution(execution_id)

    async def start(self, playbook: str, payload: dict[str, Any] | None = None) -> str:
        execution_id = uuid7(SystemClock().now())
        await self.executions.start(
            compiled(playbook), execution_id=execution_id, trace_id=execution_id, payload=payload or {}
        )
        return execution_id

    async def left_alone(self) -> None:
        """Return once no poll waits for an order: a disconnected poll is noticed a moment later, and would receive
        an order that arrives in that moment."""
        async with asyncio.timeout(60):
            while self.waiting:
                await asyncio.sleep(0.001)

    def claimed(self) -> list[str]:
        """The orders that were claimed."""
        return [present(one.order_id) for one in payloads(self.events, TokenClaimed)]

    def names(self) -> list[str]:
        return [event.event_type for event in self.events]


def app_of(server: WireServer) -> Any:
    app, executions, for_workers = FastAPI(), server.executions, server.for_workers

    async def faulty(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope)
        server.requests.append((request.method, request.url.path))
        fault = server.faults.popleft()(request) if server.faults else None
        await (app if fault is None else fault)(scope, receive, send)

    @app.exception_handler(ToolError)
    async def failed(_: Request, problem: ToolError) -> Response:
        error = {"kind": problem.kind, "message": problem.message, "retryable": False, "details": problem.details}
        return _json({"detail": problem.message, "error": error}, 422)

    @app.post("/api/workers")
    async def register(request: Request) -> Response:
        body = msgspec.json.decode(await request.body())
        worker_id = f"{body['name']}:1:2"
        server.workers[worker_id] = body
        return _json({"worker_id": worker_id})

    @app.delete("/api/workers/{worker_id}")
    async def deregister(worker_id: str) -> Response:
        server.workers.pop(worker_id, None)
        return Response(status_code=204)

    @app.post("/api/orders/turn")
    async def turn(request: Request, wait_s: float = 0) -> Response:
        turn = read_turn(await request.body())
        server.turns.append(turn)
        if server.unreadable(turn):
            return _json({"detail": "what is this?"}, 422)
        server.waiting += 1
        try:
            return _json(await answered(request, turn, wait_s))
        finally:
            server.waiting -= 1

    async def answered(request: Request, turn: Turn, wait_s: float) -> TurnAnswer:
        answer = await for_workers.turn(turn)
        until = asyncio.get_running_loop().time() + wait_s
        while wait_s and not answer.orders and asyncio.get_running_loop().time() < until:
            if await request.is_disconnected():
                break
            await asyncio.sleep(0.01)
            answer = await for_workers.turn(turn)
        return answer

    @app.post("/api/orders/heartbeat")
    async def heartbeat(request: Request) -> Response:
        body = msgspec.json.decode(await request.body())
        server.beats.append(body["leases"])
        lost = await for_workers.renew(body["worker_id"], body["leases"])
        return _json({"lost": sorted(lost | (server.lost & body["leases"].keys())), "stop": []})

    @app.post("/api/orders/secret")
    async def secret(request: Request) -> Response:
        return _json(await for_workers.secret(msgspec.json.decode(await request.body(), type=Ask)))

    @app.post("/api/orders/call")
    async def call(request: Request) -> Response:
        return _json(await for_workers.call(msgspec.json.decode(await request.body(), type=PlaybookCall)))

    @app.get("/api/nets/{net_hash}")
    async def net(net_hash: str) -> Response:
        return Response(to_json(await executions.net(net_hash)))

    @app.put("/api/results/{checksum}")
    async def keep(checksum: str, request: Request) -> Response:
        reference = server.results.put(msgspec.json.decode(await request.body()))
        assert reference.checksum == checksum
        return _json(reference)

    @app.get("/api/results/{checksum}")
    async def load(checksum: str) -> Response:
        reference = Reference(store="", key="", checksum=checksum, size=0)
        return _json(server.results.load(reference))

    return faulty


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


@asynccontextmanager
async def wire_server() -> AsyncIterator[WireServer]:
    """A server on a free port for as long as the block lasts."""
    server = WireServer()
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    config = uvicorn.Config(app_of(server), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    http = uvicorn.Server(config)
    serving = asyncio.ensure_future(http._serve([listening]))
    try:
        yield server
    finally:
        http.should_exit = True
        await serving
        listening.close()


TWO = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: two, path: tests/two }
workflow:
  - step: start
    tool: [{ name: a, kind: python, code: x }, { name: b, kind: python, code: x }]
    next: { arcs: [{ step: then }] }
  - step: then
    tool: [{ name: c, kind: python, code: x }]
"""
