"""The world around the playbooks of `wild`: their endpoints, their tables, and what each of them must lead to.

They are written like those of authors who have read only the documentation; nothing in them is scripted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.placements.cases import Case
from tests.servers.http import Reply, Request, Script, reply

FOLDER = Path(__file__).parent / "wild"
PATIENT = {"timeout: 5s": "timeout: 60s", "timeout: 10\n": "timeout: 60\n"}  # a busy machine answers late
_NAMES = ("Ada", "Bob", "Cy", "Dee")


def _page(request: Request) -> Reply:
    query = request.query
    page, size = int(query["page"]), int(query.get("pageSize") or query["page_size"])
    rows = [{"id": n, "name": f"n{n}"} for n in range(1, 6)][(page - 1) * size : page * size]
    more = page * size < 5
    body = {"data": rows, "items": rows, "page": page, "has_more": more, "paging": {"page": page, "hasMore": more}}
    return reply(json=body)


def _cursor(request: Request) -> Reply:
    here = request.query.get("cursor", "a")
    return reply(json={"items": [here], "meta": {"next_cursor": {"a": "b", "b": "c"}.get(here)}})


def _link(request: Request) -> Reply:
    n = int(request.query["n"])
    link = {"Link": f'<http://{request.headers["host"]}/link?n={n + 1}>; rel="next"'} if n < 3 else {}
    return reply(json=[n * 10], headers=link)


def _offset(request: Request) -> Reply:
    at = int(request.query["offset"])
    return reply(json={"results": list(range(at, min(at + 2, 5))), "next_offset": at + 2 if at < 4 else None})


def _products(request: Request) -> Reply:
    skip, limit = int(request.query["skip"]), int(request.query["limit"])
    rows = [{"id": n, "sku": f"S{n}", "price": n * 1.5, "tags": ["<new>"] * (n % 2)} for n in range(1, 8)]
    return reply(json={"products": rows[skip : skip + limit], "total": len(rows)})


def _stale(request: Request) -> Reply:
    return reply(401) if request.headers["authorization"] == "Bearer tok1" else reply(json={"ok": 1})


def _user(n: int) -> Reply:
    return reply(json={"id": n, "name": _NAMES[n], "city": "Zürich" if n % 2 else "Oslo"})


ROUTES: dict[str, Script] = {
    "/pages": _page,
    "/cursor": _cursor,
    "/link": _link,
    "/offset": _offset,
    "/products": _products,
    "/token": [reply(json={"access_token": "tok1"}), reply(json={"access_token": "tok2"})],
    "/stale": _stale,
    "POST /job": reply(202, json={"id": "j1", "state": "QUEUED"}),
    "GET /job": [*[reply(json={"state": "RUNNING"})] * 2, reply(json={"state": "DONE", "n": 3})],
    "/users/404": reply(404, json={"error": "no such user"}),
    "/broken": reply(500, json={"error": {"message": "boom"}}),
    **{f"/users/{n}": _user(n) for n in (1, 2, 3)},
}
TABLES = {
    "v10_lists_in_sql": "cities (id int PRIMARY KEY, name text)",
    "v10_nightly_load": "products (id int PRIMARY KEY, sku text, price numeric, tags jsonb);"
    "CREATE TABLE load_log (n int, status text)",
    "v10_undone_order": "orders (id serial, item text)",
    "v2_case_every_rule": "oslo (id int, name text); CREATE TABLE yells (word text)",
    "v2_case_pages_to_table": "raw (page int, n int, i int)",
    "v2_case_polling": "jobs (id text, n int)",
    "v2_case_repair": "missing (id int)",
    "v2_case_rows": "people (id int, name text)",
    "v2_case_users_and_failures": "users (id int PRIMARY KEY, name text, city text);"
    "CREATE TABLE errors (id int, status int)",
    "v2_eval_shared_pages": "rows (id int, name text, idx int)",
}


class Wanted(msgspec.Struct, frozen=True):
    """The expected outcome of a playbook."""

    result: Any = None
    ctx: dict[str, Any] = {}
    rows: dict[str, list[Any]] = {}


_NAMED = [[n, f"n{n}"] for n in range(1, 6)]
_CITIES = ["Zürich", "O'Hare", "São Paulo; DROP TABLE cities", "100%"]
_TEXT_ADDED = '"wild/sum" failed: py.exception: TypeError: can only concatenate str (not "int") to str'
_SUM = {"total": 5, "bare": 5, "st": "completed", "half": {"total": 2, "half": 1.0}}
WANTED = {
    "v10_args_in_code": Wanted(
        result={
            "named": "Ada/1/eu",
            "mapped": {"limit": 2, "region": "eu", "user": "Ada"},
            "returned": ["limit", "region", "user"],
            "taken": ["Ada", ["extra", "limit", "region"]],
        }
    ),
    "v10_best_effort": Wanted(
        result={
            "f": 1,
            "d": 2,
            "names": ["Bob", "Cy"],
            "n": 2,
            "good": [{"id": 1, "name": "Bob", "city": "Zürich"}, {"id": 2, "name": "Cy", "city": "Oslo"}],
            "len": 3,
        },
        ctx={"names": ["Bob", "Cy"], "n": 2},
    ),
    "v10_children": Wanted(
        result={"k": "playbook.failed", "m": _TEXT_ADDED, "sums": [11, 12, 13], "s": _SUM},
    ),
    "v10_cursor_pages": Wanted(result={"n": 3, "joined": "a-b-c"}, ctx={"all": ["a", "b", "c"], "n": 3}),
    "v10_fan_in": Wanted(result={"risk": 0.15, "vip": True, "n": 2, "from": ["fraud", "vip-desk"]}),
    "v10_hotels_of_cities": Wanted(
        result={
            "r": ["Oslo/A/0.0", "Oslo/B/0.1", "Rome/C/2.0"],
            "total": 3,
            "paths": [[0, 0], [0, 1], [2, 0]],
        }
    ),
    "v10_link_header": Wanted(result={"rows": [10, 20, 30], "sum": 60}),
    "v10_lists_in_sql": Wanted(
        result={"some": [_CITIES[0], _CITIES[2]], "any": [2, 3], "n": 2},
        rows={"cities": [[n + 1, name] for n, name in enumerate(_CITIES)]},
    ),
    "v10_nightly_load": Wanted(
        result={"loaded": 7, "total": 42.0, "others": ["S1", "S2", "S3", "S4", "S7"], "status": "ok"},
        ctx={"loaded": 7},
        rows={"load_log": [[7, "ok"]]},
    ),
    "v10_put_and_get": Wanted(result={"rows": ["1", "2", "3"], "same": True}),
    "v10_token_refresh": Wanted(result={"ok": 1}),
    "v10_undone_order": Wanted(result=[{"left_over": 0, "why": 500}], rows={"orders": []}),
    "v10_while_offset": Wanted(result={"got": [0, 1, 2, 3, 4]}),
    "v2_case_every_rule": Wanted(
        result=[{"o": 1, "y": ["BOB0", "CY1", "DEE2"]}],
        ctx={"o": 1, "y": ["BOB0", "CY1", "DEE2"]},
        rows={"oslo": [[2, "Cy"]], "yells": [["BOB0"], ["CY1"], ["DEE2"]]},
    ),
    "v2_case_fork": Wanted(result={"left": "L", "right": {"R": 1}}, ctx={"l": "L", "r": 1}),
    "v2_case_not_found": Wanted(
        result=404, ctx={"why": "http.status", "body": {"error": "no such user"}, "st": "error"}
    ),
    "v2_case_pages_to_table": Wanted(
        result={"ids": [1, 2, 3, 4, 5], "total": 5, "r": 5},
        ctx={"total": 5, "ids": [1, 2, 3, 4, 5]},
        rows={"raw": [[1, 2, 1], [2, 2, 2], [3, 1, 3]]},
    ),
    "v2_case_polling": Wanted(result=[3, 202], ctx={"job": "j1", "code": 202}, rows={"jobs": [["j1", 3]]}),
    "v2_case_repair": Wanted(result=[{"ids": [404]}], rows={"missing": [[404]]}),
    "v2_case_rows": Wanted(result="stored", rows={"people": sorted([*_NAMED, [100, "n1+n2"]], key=repr)}),
    "v2_case_users_and_failures": Wanted(
        result={"ok": 3, "zurich": ["Bob", "Dee"]},
        ctx={"count": 3, "zurich": ["Bob", "Dee"]},
        rows={"users": [[1, "Bob", "Zürich"], [2, "Cy", "Oslo"], [3, "Dee", "Zürich"]], "errors": [[404, 404]]},
    ),
    "v2_eval_shared_pages": Wanted(
        result=10, rows={"rows": sorted(([*row, at] for row in _NAMED for at in (0, 1)), key=repr)}
    ),
    "v2_eval_vars": Wanted(
        result={"one": ["abc", ["ABC", True]], "two": {"v": None, "c": 1}}, ctx={"seen": 5, "deep": {"path": 1}}
    ),
}


def _case(path: Path) -> Case:
    """Every case is served everything; a list of answers restarts for each."""
    name = path.stem
    sql = f"CREATE TABLE {TABLES[name]}" if name in TABLES else "SELECT 1"
    children = tuple(child.read_text() for child in FOLDER.glob("children/*.yaml")) if name == "v10_children" else ()
    tables, text = tuple(WANTED[name].rows), path.read_text()
    for short, long in PATIENT.items():
        text = text.replace(short, long)
    return Case(name=name, text=text, routes=ROUTES, sql=sql, tables=tables, children=children)


CASES = [_case(path) for path in sorted(FOLDER.glob("*.yaml"))]
