"""A server of the access routes alone, over a store in memory and a manual clock, and its callers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from fastapi import FastAPI, Request
from starlette.responses import PlainTextResponse, StreamingResponse

from noetl.base.clock import ManualClock
from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from noetl.secrets.encryption import MasterKeys
from noetl.server import problem_details
from noetl.server.access.access import Access, Rates, install
from noetl.server.configuration import ServerSettings
from noetl.server.guarded_router import GuardedRouter, include
from noetl.server.routes import access as access_routes
from noetl.server.routes import triggers
from noetl.server.services import Services, make_services
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults

KEY = MasterKeys([b"k" * 32])


class Between:
    """The actions between the two parts of the stream, set by a test."""

    def __init__(self) -> None:
        self.happens: Callable[[], Awaitable[None]] | None = None

    async def __call__(self) -> None:
        if self.happens is not None:
            await self.happens()


class Ground:
    """One server, and tokens of each role on demand."""

    def __init__(self, *, rates: Rates | None = None, tls: bool = False, keys: MasterKeys = KEY) -> None:
        self.keys = keys
        self.clock, self.store = ManualClock(), MemoryStore()
        self.services: Services = make_services(ServerSettings(), self.store, MemoryResults(), clock=self.clock)
        self.access = Access(
            self.services.store, self.clock, tls=tls, rates=rates, keys=lambda: self.keys, hosts=("noetl.example:8443",)
        )
        self.services.access = self.access
        self.app = FastAPI(openapi_url=None)
        self.app.state.services = self.services
        self.app.state.between = self.between = Between()
        problem_details.install(self.app)
        install(self.app, self.access)
        for router in (access_routes.router, triggers.webhooks_router):
            include(self.app, router)
        include(self.app, _more())

    def client(self, **headers: str) -> httpx2.AsyncClient:
        scheme = "https" if self.access.tls else "http"
        transport = httpx2.ASGITransport(self.app, client=("192.0.2.7", 1234))
        return httpx2.AsyncClient(transport=transport, base_url=f"{scheme}://localhost", headers=headers)

    async def token(self, role: Role, **more: Any) -> str:
        if role is Role.WORKER:
            more.setdefault("pools", ("default",))
        text, _ = await self.access.tokens.create(TokenRequest(subject=f"a {role}", role=role, **more))
        return text

    async def as_(self, role: Role, **more: Any) -> httpx2.AsyncClient:
        return self.client(authorization=f"Bearer {await self.token(role, **more)}")


def _more() -> GuardedRouter:
    """Routes whose rows are in the table, and one that has none."""
    router = GuardedRouter()

    @router.get("/api/catalog")
    async def catalogue() -> PlainTextResponse:
        return PlainTextResponse("catalogue")

    @router.post("/api/catalog")
    async def register() -> PlainTextResponse:
        return PlainTextResponse("registered")

    @router.get("/api/forgotten")
    async def forgotten() -> PlainTextResponse:
        return PlainTextResponse("nobody thought of this route")

    @router.get("/api/schema")
    async def stream(request: Request) -> StreamingResponse:
        async def parts() -> Any:
            yield b"first\n"
            await request.app.state.between()
            yield b"second\n"

        return StreamingResponse(parts(), media_type="text/event-stream")

    return router
