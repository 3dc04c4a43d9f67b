"""Places: where a case can be run (design.md §2). Embedded ones live in the test; the others are real processes.

Every case in a place gets its own endpoints, tables and credentials; executions run side by side in it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from noetl.base.errors import NoetlError
from noetl.client.api_request import ApiError
from noetl.client.async_client import AsyncClient
from noetl.events.envelope import Event
from noetl.operations.embedded import compiled, driving
from noetl.tools.contract import Tool
from noetl.tools.registry import Permissions, Registry
from tests.cli.processes_here import Here
from tests.contracts.stores import borrowed_url, fresh_url
from tests.fixtures.running import CREDENTIALS, ENDPOINT, PASSWORD, Tables
from tests.placements.cases import Case, Line
from tests.placements.lines import Called, Straight
from tests.placements.observations import Told
from tests.placements.task_desk import Desk
from tests.secrets.vaults import new_keychain, new_vault
from tests.servers import nats, postgres
from tests.servers.http import HttpServer

REPOSITORY = Path(__file__).parents[2]
NOWHERE = {"host": "nowhere", "user": "nobody", "database": "none", "password": PASSWORD}
OTHER = {**NOWHERE, "token": PASSWORD, "api_key": PASSWORD}
MASTER_KEY = base64.b64encode(b"k" * 32).decode()
STAND_INS = ("ibm=simulator",)
_ENDS_S = 240.0
_ID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_JOB = re.compile(rb"simulator:[\w-]+")  # it says when it was submitted
_FOUND = re.compile(r"^<text>:(\d+: E_\w+)", re.M)


class Place(Protocol):
    async def ran(self, case: Case) -> Told:
        """Run a case to its end."""


class ReadyOrder:
    """A case with its surroundings standing: the text and credential names as they are in this run."""

    def __init__(self, case: Case, server: HttpServer, tables: Tables | None) -> None:
        self.case, self._server, self._tables = case, server, tables
        self._names = {name: f"{name}_{uuid4().hex[:8]}" for name in CREDENTIALS}
        auth = tables.auth if tables is not None else NOWHERE
        self.credentials: dict[str, dict[str, Any]] = {
            **dict.fromkeys(self._names.values(), auth),
            **dict.fromkeys(case.credentials, OTHER),
        }

    def text(self, written: str) -> str:
        for name, here_ in self._names.items():
            written = written.replace(name, here_)
        return written.replace(ENDPOINT, self._server.url)

    async def left(self) -> dict[str, Any]:
        """The external effects of the run."""
        calls = sorted(
            f"{one.method} {one.path} {sorted(one.query.items())} {one.body.decode()}" for one in self._server.requests
        )
        rows = {}
        for table in self.case.tables:
            assert self._tables is not None
            rows[table] = sorted(await asyncio.to_thread(self._tables.rows, table), key=repr)
        return {"calls": calls, "rows": rows}


@asynccontextmanager
async def standing(case: Case) -> AsyncIterator[ReadyOrder]:
    tables = await asyncio.to_thread(Tables, _auth(), case.sql) if case.sql is not None else None
    async with HttpServer(case.routes or {}) as server:
        yield ReadyOrder(case, server, tables)


def _auth() -> dict[str, Any]:
    return postgres.server().auth("postgres")


class Embedded:
    """`noetl run`: store, orchestrator and worker in this process, a store of its own for every case."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    async def ran(self, case: Case) -> Told:
        async with asyncio.timeout(_ENDS_S), standing(case) as ready:
            if self._folder is not None:
                return await _ran_embedded(ready, str(self._folder / f"{uuid4().hex}.db"))
            async with borrowed_url() as db:
                return await _ran_embedded(ready, db)


async def _ran_embedded(ready: ReadyOrder, db: str) -> Told:
    case, events, script = ready.case, list[Event](), ready.case.script()
    vault = new_vault()
    for name, fields in ready.credentials.items():
        await vault.set(name, fields, kind="postgres")
    scripted: dict[str, Tool] = dict.fromkeys(case.kinds, script)
    tools = Registry(scripted, permissions=Permissions(provider_stand_ins=STAND_INS))
    async with driving(db, watch=events.extend, tools=tools, keychain=new_keychain(vault=vault)) as driver:
        line = Straight(driver, events)
        try:
            for text in case.children:
                await driver.register(ready.text(text))
            net = compiled(ready.text(case.playbook))
            await driver.register(net)
            if case.early is not None:
                await case.early(line)
            line.execution_id = await driver.start(net, case.payload)
        except NoetlError as problem:
            return Told(refused=sorted(_FOUND.findall(str(problem))) or [str(problem)])
        speaking = _speaking(case, line)
        result = await driver.result(line.execution_id)
        await driver.drained()
        await speaking
    return Told(
        status=result.status.value,
        result=_nameless(result.result),
        ctx=_steady(result.ctx, case),
        error=result.error.kind if result.error else None,
        events=[event for event in events if event.execution_id == line.execution_id],
        **await ready.left(),
    )


def _steady(ctx: dict[str, Any], case: Case) -> dict[str, Any]:
    return {name: _nameless(value) for name, value in ctx.items() if name not in case.varying}


def _nameless(value: Any) -> Any:
    """The value without the ids of executions and jobs in it, which no two runs share."""
    return msgspec.json.decode(_JOB.sub(b"a job", _ID.sub(b"an execution", msgspec.json.encode(value))))


def _speaking(case: Case, line: Line) -> asyncio.Future[None]:
    async def nothing() -> None: ...

    return asyncio.ensure_future(case.say(line) if case.say is not None else nothing())


class Server:
    """A server somewhere: everything goes through its API."""

    def __init__(self, place: Here, desk: Desk) -> None:
        self._place, self._secret_release = place, desk

    async def ran(self, case: Case) -> Told:
        async with (
            asyncio.timeout(_ENDS_S),
            AsyncClient(self._place.url, self._place.token) as client,
            standing(case) as ready,
        ):
            return await self._ran(client, ready)

    async def _ran(self, client: AsyncClient, ready: ReadyOrder) -> Told:
        case, line = ready.case, Called(client)
        for name, fields in ready.credentials.items():
            await client.set_credential(name, fields, kind="postgres")
        try:
            for text in case.children:
                await client.register(ready.text(text))
            registered = await client.register(ready.text(case.playbook))
            if case.early is not None:
                await case.early(line)
            with self._secret_release.starting():
                started = await client.start(registered.path, case.payload, version=registered.version)
                self._secret_release.open(started.execution_id, case)
        except ApiError as problem:
            errors = (one for one in problem.diagnostics if one["severity"] == "error")
            reason = str(problem).removeprefix("no worker of this server can run it: ")  # there are none elsewhere
            return Told(refused=sorted(f"{one['line']}: {one['code']}" for one in errors) or [reason])
        line.execution_id = started.execution_id
        speaking = _speaking(case, line)
        ended = await client.wait(line.execution_id)
        assert ended is not None
        await speaking
        return Told(
            status=ended.status,
            result=_nameless(ended.result),
            ctx=_steady(await client.ctx(line.execution_id), case),
            error=ended.error["kind"] if ended.error else None,
            events=list(await line.seen()),
            **await ready.left(),
        )


class Processes(Here):
    """Ours, started as `tests.placements.process`."""

    def __init__(self, folder: Path, desk_url: str) -> None:
        super().__init__(folder)
        self._desk_url = desk_url

    def environment(self, **more: str) -> dict[str, str]:
        variables = super().environment(**more)
        path = os.pathsep.join(str(one) for one in (REPOSITORY / "src", REPOSITORY))  # this tree, wherever it lies
        return {**variables, "TEST_DESK": self._desk_url, "PYTHONPATH": path}

    def spawn(self, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.placements.process", *arguments]
        with (self.folder / f"{len(self.children)}-{arguments[0]}.log").open("wb") as log:
            child = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment(**more), cwd=self.folder)
        self.children.append(child)
        return child


LOOPBACK = ("--allow-address", "127.0.0.1")


@contextmanager
def served(name: str, folder: Path) -> Iterator[Server]:
    """The server, and the worker, of a place."""
    desk = Desk()
    with HttpServer({"*": desk.answer}) as asked:
        place = Processes(folder, asked.url)
        try:
            _start(name, place)
            yield Server(place, desk)
        finally:
            place.end()


def _start(name: str, place: Processes) -> None:
    stand_ins, sealed = {"NOETL_PROVIDER_STAND_INS": ",".join(STAND_INS)}, {"NOETL_MASTER_KEY": MASTER_KEY}
    db = fresh_url() if "PostgreSQL" in name else str(place.folder / "s.db")
    reached = (*LOOPBACK, *postgres.server().allowed())  # the endpoints and the tables of the cases
    if "inside" in name:
        place.server("--db", db, "--workers-in-process", "8", *reached, **stand_ins, **sealed)
        return
    place.server("--db", db, *(["--nats", nats.server().url] if "NATS" in name else []), **sealed)
    place.worker("--concurrency", "8", *reached, **stand_ins)


SERVERS = (
    "server, worker inside",
    "server and worker, SQLite",
    "server and worker, PostgreSQL",
    "server and worker, PostgreSQL and NATS",
)
EMBEDDED = ("embedded, PostgreSQL",)
PLACES = (*EMBEDDED, *SERVERS)
