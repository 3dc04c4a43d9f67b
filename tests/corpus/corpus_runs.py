"""Running the playbooks of the corpus: each beside a file that says what surrounds it and what it must lead to.

`NAME.expect.yaml` holds the stub HTTP server, the credentials and tables a playbook needs, and what is expected of its
run. The format is explained in README.md. A playbook that `check` refuses is migrated first, as a user would do it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec
import yaml

from noetl.base.addresses.policy import UNGUARDED
from noetl.base.clock import ManualClock, SystemClock
from noetl.base.diagnostics import Severity, Source
from noetl.engine.scopes import payload_of
from noetl.events.envelope import Event
from noetl.events.outcomes import Reference
from noetl.language.checking import check
from noetl.operations.embedded import RunResult, driving
from noetl.operations.results import step_end
from noetl.secrets.contract import Sources
from noetl.secrets.encryption import MasterKeys
from noetl.secrets.keychain import Keychain, read_file
from noetl.secrets.token_requests import TokenRequests
from noetl.secrets.vault import Vault
from noetl.store.installation import MemoryCredentials
from noetl.tools.kinds import load_kinds
from noetl.tools.registry import Permissions, Registry
from tests.cli.running import call
from tests.servers.http import HttpServer, Reply, Request, reply
from tests.servers.postgres import server

FOLDER = Path(__file__).parent
SUFFIX = ".expect.yaml"
SHORT_S = 0.2  # a lock that is waited for is real; a retry delay is not
DEADLINE_S = 100


class Case(msgspec.Struct, frozen=True):
    """One playbook of the corpus with its expectation."""

    playbook: Path
    expectation: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.playbook.parent.name}/{self.playbook.stem}"


class Reading(msgspec.Struct, frozen=True):
    """How a text was taken: `accepted`, `rescued` by migration, or `refused`, with what was said about it."""

    how: str
    text: str
    said: tuple[str, ...]


class Observed(msgspec.Struct):
    """The observable results of a run."""

    result: RunResult
    events: list[Event]
    requests: list[Request]
    rows: list[list[Any]]
    step_results: dict[str, Any]

    @property
    def ran(self) -> list[str]:
        return [event.step for event in self.events if event.event_type == "step.started" and event.step]


class _PlainLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # of libyaml where it is
    """YAML 1.2 as playbooks are read: `no`, `yes`, `on` and `off` are text, and dates stay text."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag.split(":")[-1] not in ("bool", "timestamp")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_PlainLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false|True|False)$"), list("tTfF"))


def cases(folder: Path = FOLDER) -> list[Case]:
    """Every case, in the order of their names."""
    found = sorted(folder.rglob(f"*{SUFFIX}"))
    return [
        Case(file.with_name(file.name.removesuffix(SUFFIX) + ".yaml"), yaml.load(file.read_text(), _PlainLoader))
        for file in found
    ]


def reading(path: Path) -> Reading:
    """The text that would run: the playbook as it is, else what `noetl migrate` makes of it."""
    text = path.read_text()
    said = errors(text)
    if not said:
        return Reading("accepted", text, ())
    exit_code, migrated, _ = call("migrate", str(path))
    if exit_code == 0 and not errors(migrated):
        return Reading("rescued", migrated, said)
    return Reading("refused", text, said)


def errors(text: str) -> tuple[str, ...]:
    checked = check(Source("<corpus>", text), kinds=load_kinds(), proofs=False)
    return tuple(f"{d.line}: {d.code}: {d.message}" for d in checked.diagnostics if d.severity is Severity.ERROR)


def warnings(text: str) -> set[str]:
    """The codes of everything that `check` warns of."""
    checked = check(Source("<corpus>", text), kinds=load_kinds(), proofs=False)
    return {found.code for found in checked.diagnostics if found.severity is Severity.WARNING}


class Stub:
    """The HTTP server of one case: each route answers by its list of responses, the last one forever."""

    def __init__(self, routes: list[dict[str, Any]]) -> None:
        self._routes = routes
        self._given = [0] * len(routes)

    def answer(self, request: Request) -> Reply:
        # A route that names query values is the more exact one, so it is asked first.
        order = sorted(range(len(self._routes)), key=lambda n: -len(self._routes[n].get("query") or {}))
        for n in order:
            route = self._routes[n]
            if _matches(route, request):
                responses = route.get("responses") or [{}]
                chosen = responses[min(self._given[n], len(responses) - 1)]
                self._given[n] += 1
                return reply(
                    chosen.get("status", 200),
                    json=chosen.get("json"),
                    text=chosen.get("text"),
                    headers={name: str(value) for name, value in (chosen.get("headers") or {}).items()},
                )
        return reply(404, json={"error": "the stub has no such route"})


def _matches(route: dict[str, Any], request: Request) -> bool:
    if route.get("method", "GET").upper() != request.method or route["path"] != request.path:
        return False
    return all(request.query.get(name) == str(value) for name, value in (route.get("query") or {}).items())


def run_case(case: Case, text: str, folder: Path) -> Observed:
    """Run the text of a case to its end, with everything its expectation names around it."""
    made = case.expectation.get("credentials") or {}
    with ExitStack() as stack:
        # The database behind each credential of PostgreSQL.
        databases = {
            name: stack.enter_context(server().lent_database())
            for name, one in made.items()
            if one["type"] == "postgres"
        }
        return asyncio.run(asyncio.wait_for(_run(case, text, folder, databases), DEADLINE_S))


async def _run(case: Case, text: str, folder: Path, databases: dict[str, str]) -> Observed:
    expectation, events = case.expectation, list[Event]()
    is_real = expectation.get("clock") == "real"
    clock = SystemClock() if is_real else ManualClock(time.time())

    async def sleep(seconds: float) -> None:
        if isinstance(clock, ManualClock):
            clock.advance(seconds)  # a delay passes at once, and everything that looks at the clock agrees
        await asyncio.sleep(seconds if is_real or seconds < SHORT_S else 0)

    keychain = await _keychain(expectation, databases)
    stub = Stub(expectation.get("http") or [])
    tools = Registry(permissions=Permissions(data_folders=(str(folder),)))
    async with HttpServer({"*": stub.answer}) as http:
        payload = {"api_url": http.url, **(expectation.get("workload") or {})}
        if "db_file" in text:
            payload["db_file"] = str(folder / "work.duckdb")
        async with driving(
            ":memory:", tools=tools, clock=clock, watch=events.extend, sleep=sleep, keychain=keychain
        ) as driver:
            for child in expectation.get("children") or []:
                await driver.register(reading(case.playbook.parent / child).text)
            result = await driver.run(text, payload)
            await driver.drained()
        requests = list(http.requests)
    own = [event for event in events if event.execution_id == result.execution_id]
    rows = [await _rows(databases, asked) for asked in (expectation["expect"].get("rows") or [])]
    return Observed(result, own, requests, rows, _step_results(own, expectation["expect"].get("results") or ()))


async def _keychain(expectation: dict[str, Any], databases: dict[str, str]) -> Keychain:
    clock = SystemClock()
    vault = Vault(MemoryCredentials(), MasterKeys([b"k" * 32]), clock)
    for name, made in (expectation.get("credentials") or {}).items():
        given = {key: value for key, value in made.items() if key != "type"}
        kind = {"static": "text"}.get(made["type"], made["type"])
        if kind == "postgres":
            given = server().auth(databases[name])
            for statement in filter(None, [(expectation.get("setup_sql") or {}).get(name)]):
                server().ask(statement, databases[name])
        await vault.set(name, given, kind=kind)
    return Keychain(
        Sources(environment={}, vault=vault, clock=clock, read_file=read_file, post=TokenRequests(UNGUARDED))
    )


async def _rows(databases: dict[str, str], asked: dict[str, Any]) -> list[Any]:
    connection = await asyncpg.connect(**server().auth(databases[asked["credential"]]))
    try:
        return [[_plain(value) for value in row] for row in await connection.fetch(asked["query"])]
    except asyncpg.PostgresError as error:
        return [str(error)]
    finally:
        await connection.close()


def _plain(value: Any) -> Any:
    """A value of the driver as the expectation writes it."""
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, str | int | float | bool | list | None) else str(value)


def _step_results(events: list[Event], steps: Iterable[str]) -> dict[str, Any]:
    ended = {step: step_end([event for event in events if event.step == step], step) for step in steps}
    return {step: payload_of(found.result, _no_references) for step, found in ended.items() if found is not None}


def _no_references(reference: Reference) -> Any:
    raise AssertionError(f"the results of this corpus are small, but {reference} is stored apart")


def differences(case: Case, seen: Observed) -> list[str]:
    """All differences between a run and its expectation, as text."""
    expect = case.expectation["expect"]
    found = []
    if str(seen.result.status.value) != expect["status"]:
        found.append(f"status is {seen.result.status.value}, not {expect['status']}: {seen.result.error}")
    if "error" in expect:
        found += _unlike("error.kind", expect["error"], seen.result.error.kind if seen.result.error else None)
    found += _unlike("ctx", expect.get("ctx") or {}, seen.result.ctx)
    for step, wanted in (expect.get("results") or {}).items():
        found += _unlike(f"results.{step}", wanted, seen.step_results.get(step))
    found += [f"step {step} did not run" for step in expect.get("ran") or [] if step not in seen.ran]
    found += [f"step {step} ran" for step in expect.get("not_ran") or [] if step in seen.ran]
    found += [said for wanted in expect.get("requests") or [] for said in _request_differences(wanted, seen.requests)]
    for asked, rows in zip(expect.get("rows") or [], seen.rows, strict=True):
        found += _unlike(asked["query"], asked["rows"], rows)
    return found


def _request_differences(wanted: dict[str, Any], requests: list[Request]) -> list[str]:
    same = [r for r in requests if r.path == wanted["path"] and r.method == wanted.get("method", "GET").upper()]
    if "query" in wanted:
        same = [r for r in same if not _unlike("", {k: str(v) for k, v in wanted["query"].items()}, r.query)]
    if "json" in wanted:
        same = [r for r in same if r.body and not _unlike("", wanted["json"], r.json)]
    least = wanted.get("count", 1)
    if (len(same) == least) if "count" in wanted else same:
        return []
    bodies = [r.body.decode()[:200] for r in requests if r.path == wanted["path"]]
    return [f"{wanted} came {len(same)} times; bodies: {bodies}"]


def _unlike(place: str, wanted: Any, seen: Any) -> list[str]:
    """Where `seen` is not `wanted`. Mappings may hold more, lists may not; 1 and 1.0 are the same number."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        return [said for key, value in wanted.items() for said in _unlike(f"{place}.{key}", value, seen.get(key))]
    if isinstance(wanted, list) and isinstance(seen, list) and len(wanted) == len(seen):
        return [
            said for n, pair in enumerate(zip(wanted, seen, strict=True)) for said in _unlike(f"{place}[{n}]", *pair)
        ]
    return (
        []
        if wanted == seen and isinstance(wanted, bool) == isinstance(seen, bool)
        else [f"{place} is {seen!r}, not {wanted!r}"]
    )
