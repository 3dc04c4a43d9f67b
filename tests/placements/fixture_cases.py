"""The fixtures of the specification (§6) that run, each with the surroundings its own tests give it.

Hours are seconds here, since elsewhere time is real.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from tests.fixtures import v2_case_surroundings as v2_case
from tests.fixtures import v2_eval_surroundings as v2_eval
from tests.fixtures import v10_surroundings as v10_pages
from tests.fixtures.running import FIXTURES, failing, fixture
from tests.fixtures.v10_surroundings import HOTELS, INSERT, rooms
from tests.placements.cases import Case, Line, Say, hurried, until
from tests.servers.http import Script, reply

SHORT = {"PT2H30M": "PT1S", "300s": "1s", "86400s": "2s", "timer: { duration: 1h }": "timer: { duration: 2s }"}
PATIENT = {"connect: 5, read: 15": "connect: 60, read: 60"}  # a busy machine answers late, and is not asked again
SUGAR_PAGES: list[Any] = [
    reply(json={"data": [1, 2], "paging": {"hasMore": True, "page": 1}}),
    reply(json={"data": [3], "paging": {"hasMore": False, "page": 2}}),
]
SAVED = {"INSERT INTO ...": "INSERT INTO saved VALUES (1)"}


def case(
    name: str,
    also: str = "",
    *,
    edits: Mapping[str, str] | None = None,
    routes: Mapping[str, Script] | None = None,
    **more: Any,
) -> Case:
    text = fixture(name, edits)
    for long, short in SHORT.items() if "say" not in more else ():  # a waiting step has unlimited time
        text = text.replace(long, short)
    for short, long in PATIENT.items():
        text = text.replace(short, long)
    return Case(name=f"{name} {also}".strip(), text=hurried(text), routes=routes, **more)


def of_eval(name: str, also: str = "", *, sql: str = "", **routes: Any) -> Case:
    """The pages of two endpoints, stored (F-000-E, F-003-A)."""
    given = {"/a": list(v2_eval.A), "/b": v2_eval.B, **{f"/{path}": script for path, script in routes.items()}}
    edits, tables = v2_eval.ELIDED[name], v2_eval.TABLES + sql
    return case(name, also, edits=edits, routes=given, sql=tables, tables=("pages",))


def of_pages(also: str = "", *, sql: str = "", edits: Mapping[str, str] | None = None, **routes: Any) -> Case:
    """F-004-H, against endpoints that answer, miss, refuse, falter."""
    given = {"/a": v10_pages.PAGES, "/missing": reply(404), **{f"/{path}": one for path, one in routes.items()}}
    tables = ("results_ok", "results_not_found")
    edits = {**v10_pages.SQL, **(edits or {})}
    return case("F-004-H", also, edits=edits, routes=given, sql=v10_pages.TABLES + sql, tables=tables)


def once(event_type: str, say: Say) -> Say:
    """Say it when something has been recorded."""

    async def waiting(line: Line) -> None:
        await until(line, event_type)
        await say(line)

    return waiting


def messages(name: str, *order_ids: int) -> Say:
    async def say(line: Line) -> None:
        for order_id in order_ids:
            await line.message(name, {"execution_id": line.execution_id, "order_id": order_id}, {"by": "ann"})

    return say


def response(order_id: int) -> Say:
    return lambda line: line.message("response", {"order_id": order_id}, {"a": 1})


def signals(name: str) -> Say:
    return lambda line: line.signal(name)


def decides(decision: str) -> Say:
    return lambda line: line.complete_task({"decision": decision}, "finance_manager")


async def approves(line: Line) -> None:
    await line.inject("message.received", {"type": "other"})
    await line.inject("message.received", {"type": "approval"})


def injects(name: str) -> Say:
    return lambda line: line.inject(name)


def gate(execution_id: str) -> Path:
    """A task of this execution lasts until it is there."""
    return Path(gettempdir()) / f"noetl-gate-{execution_id}"


async def audits(line: Line) -> None:
    """While the step is at work; it goes on until the audit is written."""
    await until(line, "task.started")
    await line.inject("audit.required")
    await until(line, "handler.done")
    gate(line.execution_id).touch()


GATED = (
    r'args: { of: "{{ execution_id }}" }, code: "import os, time\ngate = \"PLACE\" + of\n'
    r'while not os.path.exists(gate):\n  time.sleep(0.01)\nos.remove(gate)\nresult = 1"'
)
LOGGED = {
    "kind: audit_logger, level: info": 'kind: python, code: "result = 1"',  # a plug-in that is not installed
    'code: "import time; time.sleep(2); result = 1"': GATED.replace("PLACE", str(gate(""))),
}
RARE = {"order_id: 7": "order_id: 71"}  # no other execution waits for the same message
EVENTS = "CREATE TABLE raw_events (page jsonb, iter int)"
AUDIT = "CREATE TABLE audit_log (order_id int)"
OK = "CREATE TABLE ok (n int)"

PLAIN = [
    *(case(name) for name in ("F-000-A", "F-000-B", "F-000-C", "F-000-D", "F-001-A", "F-002-E", "F-002-I")),
    case("F-000-B", "denied", payload={"go": False}),
    case("F-002-G1"),
    case("F-002-G2"),
    case("F-004-A", "unresolved", edits={"pg_k8s": "pg_unknown"}),
    case("F-004-B"),
    case("F-004-B", "admitted", payload={"go": True}),
    case("F-004-C"),
    case("F-004-D"),
    case("F-R-JOIN"),
    case("F-R-JOIN", "skipped", payload={"skip_b": True}),
    case("F-R-SAGA"),
    case("F-R-QUANTUM"),
]
FETCHING = [
    of_eval("F-000-E"),
    of_eval("F-000-E", "busy", b=[reply(503, headers={"Retry-After": "1"}), v2_eval.B]),
    of_eval("F-000-E", "missing", b=reply(404)),
    of_eval("F-003-A"),
    of_eval("F-003-A", "conflicting", sql=failing("pages", 2)),
    of_pages(),
    of_pages("refused", missing=reply(401)),
    of_pages("busy", a=[reply(503), v10_pages.PAGES[0], reply(503), v10_pages.PAGES[1]]),
    of_pages("conflicting", sql=failing("results_ok", 2)),
    of_pages("dead", missing=reply(hang=True), edits={"timeout_s: 600": "timeout_s: 12"}),
    case("F-001-B", routes={"/events": [reply(429), *v2_case.PAGES]}, sql=EVENTS, tables=("raw_events",)),
    case("F-001-B", "dead", routes={"/events": reply(503)}, sql=EVENTS, tables=("raw_events",)),
    case("F-001-C", routes={"/x": reply(json={"n": 5})}, sql=OK, tables=("ok",)),
    case("F-001-C", "broken", routes={"/x": reply(500)}, sql=OK, tables=("ok",)),
    case(
        "F-001-D",
        sql="CREATE TABLE users (user_id int, email text); INSERT INTO users VALUES (7, 'a@b.c')",
        tables=("users",),
    ),
    case(
        "F-001-E",
        edits={"provider: ibm": "provider: ibm\n      seed: 7"},  # one that follows from the run gives other counts
        sql="CREATE TABLE qpu_results (job_id text, counts jsonb)",
    ),
    case(
        "F-002-A",
        edits={**SAVED, "delay: 5s": "delay: 1s"},
        routes={"/x": reply(json={})},
        sql="CREATE TABLE saved (n int)",
        tables=("saved",),
    ),
    case("F-002-B", edits=v2_case.AUDIT, routes={"*": reply(json={})}, sql=AUDIT, tables=("audit_log",)),
    case("F-002-B", "quiet", edits=v2_case.AUDIT, payload=v2_case.FLAGS_OFF, sql=AUDIT, tables=("audit_log",)),
    case(
        "F-002-D",
        edits=v2_case.ORDERS,
        routes={"/hook": reply(json={})},
        sql="CREATE TABLE orders (id int)",
        tables=("orders",),
    ),
    case(
        "F-002-D",
        "broken",
        edits=v2_case.ORDERS,
        routes={"/hook": reply(500)},
        sql="CREATE TABLE orders (id int)",
        tables=("orders",),
    ),
    case("F-002-F", edits=v2_case.PERSIST, sql="CREATE TABLE saved (n int)", tables=("saved",)),
    case(
        "F-002-N",
        edits=INSERT,
        sql="CREATE TABLE orders (id serial, item text); INSERT INTO orders (item) VALUES ('old')",
        tables=("orders",),
    ),
    case("F-004-E", routes={"/x": [*[reply(500)] * 4, reply(json={"ok": True})]}),
    case("F-004-E", "exhausted", routes={"/x": reply(500)}),
    case("F-004-F", routes={"/x": reply(json={"n": 1})}),
    case("F-004-F", "dropped", routes={"/x": reply(drop=True)}),
    case("F-004-G", routes={"/x": reply(json=[1, 2])}),
    case("F-004-G", "broken", routes={"/x": reply(500)}),
    case("F-R-LOOP", routes={f"/{city}/{hotel}": rooms(city, hotel) for city, hotel in HOTELS}),
    case("F-R-SUGAR", routes={"/a": SUGAR_PAGES}),
]
WAITING = [
    case("F-002-C", say=once("case.waiting", approves)),
    case("F-002-H", edits={"delay: 5s": "delay: 1s"}),
    case("F-002-J"),
    case("F-002-K"),
    case("F-002-L"),
    case("F-002-L", "answered", say=once("message.awaited", messages("approval_received", 8, 7))),
    case("F-002-M", say=once("human.created", decides("approve"))),
    case("F-002-M", "rejected", say=once("human.created", decides("reject"))),
    case("F-002-P", say=once("case.waiting", signals("cancelled"))),
    case("F-002-P", "answered", say=once("case.waiting", injects("message.received"))),
    case("F-002-O", edits=LOGGED, say=audits),
    case("F-R-TIMER"),
    case("F-R-TIMER", "cancelled", say=once("timer.scheduled", lambda line: line.cancel_timer("wait"))),
    case("F-R-GATEWAY"),
    case("F-R-GATEWAY", "answered", edits=RARE, say=once("signal.awaited", response(71))),
    case("F-R-GATEWAY", "called off", say=once("signal.awaited", signals("cancelled"))),
    case("F-R-HUMAN", say=once("human.created", decides("approve"))),
]
CASES = [*PLAIN, *FETCHING, *WAITING]
ALL_FIXTURES = sorted(path.stem for path in FIXTURES.glob("F-*.yaml"))
