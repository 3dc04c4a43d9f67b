"""A whole server in a test: memory store, a worker in its process, clients of every role. No socket is opened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from noetl.base.clock import Clock, SystemClock
from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from noetl.server.app import build
from noetl.server.configuration import ServerSettings
from noetl.server.server_process import background, cancel_tasks, work, worker_of
from noetl.server.services import Services, make_services
from noetl.store.contract import ResultStore, Store
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.tools.registry import Registry
from tests.engine_script import playbook
from tests.playbook_runs import Scripted

BASE = "http://127.0.0.1"
PROTOCOL = {"noetl-protocol": "1"}
LONGEST_S = 60.0  # that a server waits for the end of what is started; no machine that works needs it
HELD_S = 600.0  # a lease, also where a test plays the worker and renews none

HELLO = """
workload: {who: world}
workflow:
  - step: start
    tool: {kind: noop}
    set_ctx: {greeted: "{{ workload.who }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: [{name: work, kind: python, code: "result = 1"}]
"""


class WorkerClient(httpx2.AsyncClient):
    """A client that is registered as a worker."""

    worker_id: str = ""


class Talk:
    """`client` is an admin's; `as_role` gives others."""

    def __init__(self, services: Services, app: Any, token: str) -> None:
        self.services, self._app = services, app
        self.client = self.with_token(token)
        self._clients: list[httpx2.AsyncClient] = [self.client]

    def with_token(self, token: str | None, **headers: str) -> WorkerClient:
        all_headers = {**({"authorization": f"Bearer {token}"} if token else {}), **headers}
        return WorkerClient(transport=httpx2.ASGITransport(self._app), base_url=BASE, headers=all_headers, timeout=30)

    async def as_role(self, role: Role, **more: Any) -> httpx2.AsyncClient:
        if role is Role.WORKER:
            more = {"pools": ("default",), **more}
        text, _ = await self.services.access.tokens.create(TokenRequest(subject=f"a {role}", role=role, **more))
        headers = PROTOCOL if role is Role.WORKER else {}
        client = self.with_token(text, **headers)
        self._clients.append(client)
        return client

    async def as_worker(self, name: str = "w1", **more: Any) -> WorkerClient:
        """A worker of a token of its own, registered for the pools of that token."""
        client = await self.as_role(Role.WORKER, **more)
        assert isinstance(client, WorkerClient)
        registration = {"name": name, "instance": "1", "pools": more.get("pools", ("default",))}
        answer = await client.post("/api/workers", json=registration)
        assert answer.status_code == 201, answer.text
        client.worker_id = answer.json()["worker_id"]
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    # the things most tests do

    async def register(self, text: str = HELLO) -> dict[str, Any]:
        answer = await self.client.post("/api/catalog", content=playbook(text), headers={"content-type": "text/yaml"})
        assert answer.status_code in (200, 201), answer.text
        body: dict[str, Any] = answer.json()
        return body

    async def start(
        self, path: str = "tests/test", payload: dict[str, Any] | None = None, wait: float = 0
    ) -> dict[str, Any]:
        asked = {"path": path, "payload": payload or {}, "wait": wait}
        answer = await self.client.post("/api/executions", json=asked)
        assert answer.status_code == 201, answer.text
        body: dict[str, Any] = answer.json()
        return body

    async def ran(self, text: str = HELLO, payload: dict[str, Any] | None = None) -> str:
        """The id of an execution that has ended."""
        path = (await self.register(text))["path"]
        started = await self.start(path, payload, wait=LONGEST_S)
        assert started["status"] != "running", started
        return str(started["execution_id"])

    async def get(self, url: str, status: int = 200, **more: Any) -> Any:
        answer = await self.client.get(url, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def post(self, url: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        answer = await self.client.post(url, json=body, **more)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None


@asynccontextmanager
async def talking(
    *,
    workers: int = 4,
    tools: Mapping[str, Any] | None = None,
    store: Store | None = None,
    results: ResultStore | None = None,
    clock: Clock | None = None,
    **settings: Any,
) -> AsyncIterator[Talk]:
    """`tools` answer by a script (see `Scripted`); without them `python` gives 1."""
    registry = Registry(dict(tools) if tools is not None else {"python": Scripted(work=1)})
    settings = {"poll_s": 0.05, "lease_ttl_s": HELD_S, "local": True, **settings}
    chosen = ServerSettings(db=":memory:", workers=workers, **settings)
    services = make_services(
        chosen, store or MemoryStore(), results or MemoryResults(), clock=clock or SystemClock(), tools=registry
    )
    token = await services.access.tokens.create_first_admin()
    assert token is not None or store is not None
    if token is None:
        token, _ = await services.access.tokens.create(TokenRequest(subject="another", role=Role.ADMIN))
    talk = Talk(services, build(services), token)
    async with services.listeners.hub.polling():
        beside = [asyncio.ensure_future(one) for one in background(services)]
        if (worker := worker_of(services)) is not None:
            beside.append(asyncio.ensure_future(work(services, worker)))
        try:
            yield talk
            broken = [task.exception() for task in beside if task.done() and not task.cancelled()]
            assert not any(broken), broken
        finally:
            await talk.close()
            services.stopping = True
            services.listeners.hub.close()
            await cancel_tasks([*beside, *services.calls.values()])
