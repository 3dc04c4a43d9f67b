"""The playbooks in the wild (design.md §5): python runs, and tools that connect to others answer by a script. Those of
`wild_world` have endpoints and tables instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from noetl.tools.contract import ToolContext, ToolResult
from tests.placements import wild_world
from tests.placements.cases import Case, hurried
from tests.playbook_conventions.wild import PLAYBOOKS
from tests.playbook_runs import Scripted

KINDS = ("http", "postgres", "duckdb", "nats", "transfer", "secrets")
QUESTION = '{"origin": "SFO", "destination": "JFK", "date": "2025-11-15"}'
BODY = {
    "n": 1,
    "total": 120,
    "count": 2,
    "code": "ok",
    "id": 7,
    "access_token": "tok",
    "expires_in": 60,
    "items": [1, 2],
    "data": [1, 2],
    "rows": [1, 2],
    "rooms": [],
    "hourly": {"temperature_2m": [1.5, 2.5]},
    "paging": {"hasMore": False, "page": 1},
    "has_more": False,
    "meta": {"cursor": "c", "count": 2},
    "choices": [{"message": {"content": QUESTION}}],
}
ROWS = [{"id": 1, "email": "a@b.c", "kind": "x", "n": 3, "name": "Ada", "score": 9, "amount": 2}]
CHILD = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {{name: child, path: {path}}}
workflow:
  - {{step: start, tool: {{kind: noop}}, next: {{arcs: [{{step: {last}}}]}}}}
  - {{step: {last}, tool: {{kind: python, code: "result = 5"}}}}
"""


def answer(inputs: Any, context: ToolContext) -> ToolResult:
    """One page of everything that these playbooks look for, or a row of it."""
    if "url" in inputs:
        body = {**BODY, "rows": ["x" * 100] * 1000} if inputs["url"].endswith("export.json") else BODY
        result = {"status": 200, "status_code": 200, "headers": {}, "data": body}
        return ToolResult(result=result, wrapped=True, helpers={"http": {"status": 200, "headers": {}}})
    helpers = {"pg": {"code": "00000"}}
    return ToolResult(result={"data": ROWS, "row_count": 1, "columns": [*ROWS[0]]}, wrapped=True, helpers=helpers)


class Anything(Scripted):
    """The same answer for every task."""

    def answer(self, inputs: Any, context: ToolContext) -> ToolResult:
        return answer(inputs, context)


CHILDREN = tuple(
    CHILD.format(path=path, last=last)
    for path, last in [("scoring/user", "finalize"), ("scoring/user_profile", "finalize_result"), ("notify/all", "end")]
)
CREDENTIALS = (
    *("pg", "pg_main", "pg_local", "pg_warehouse", "warehouse"),
    *("openai", "gcp_oauth", "amadeus", "amadeus_client", "orders_api", "orders_client", "api"),
)
_FOREIGN = re.compile(r"kind: (?:oauth2|bearer|secret_manager)\b")  # kinds whose secrets lie outside of this machine
_MAP = re.compile(r"^    map: .*\n", re.M)


def _case(path: Path) -> Case:
    text = hurried(path.read_bytes().decode())
    if path.stem != "v10_keychain_kinds":  # it shows that those are unavailable
        text = _MAP.sub("", _FOREIGN.sub("kind: credential", text))
    more: dict[str, Any] = {"credentials": CREDENTIALS, "children": CHILDREN if "nested" in path.stem else ()}
    return Case(name=path.stem, text=text, kinds=KINDS, script=Anything, **more)


CASES = [*(_case(path) for path in PLAYBOOKS), *wild_world.CASES]
