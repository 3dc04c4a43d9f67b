"""Executions of every shape, and what a program shows of each, for `test_views`. Run by the program of an earlier day,
`python every_shape.py STORE ANSWERS` fills a store and writes the answers; dump that store, and keep both.

It needs nothing of the tests and nothing of the package but the command `noetl`, so that older programs can run it.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {{name: {0}, path: shapes/{0}, labels: {{team: {1}}}}}\n"
SHAPES = {
    "hello": """
workload: {n: 3}
workflow:
  - step: start
    tool:
      kind: python
      args: {n: "{{ workload.n }}"}
      code: "print('doubling'); result = n * 2"
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {double: "{{ outcome.result }}"}}}}]}}
    next: {arcs: [{step: end, args: {double: "{{ ctx.double }}"}}]}
  - {step: end, tool: {kind: noop, args: {said: "{{ args.double }} it is"}}}
""",
    "failed": """
workflow:
  - {step: start, tool: {kind: python, code: "print('almost'); raise ValueError('no such row')"}}
""",
    "retried": """
workflow:
  - step: start
    tool:
      kind: python
      args: {attempt: "{{ _attempt }}"}
      code: "if attempt < 3: raise TimeoutError(attempt)\\nresult = attempt"
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 5, delay: 0.01}}]}}
""",
    "loop": """
workflow:
  - step: start
    loop:
      in: [5, 6, 7]
      iterator: n
      spec: {mode: parallel, max_in_flight: 2, policy: {reducers: {squares: append}}}
    tool:
      kind: python
      args: {n: "{{ iter.n }}"}
      code: "print(n); result = n * n"
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {squares: "{{ outcome.result }}"}}}}]}}
    next: {arcs: [{step: sum, when: "{{ event.name == 'loop.done' }}"}]}
  - {step: sum, tool: {kind: noop, args: {all: "{{ ctx.squares }}"}}}
""",
    "joined": """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: bill}, {step: deliver}, {step: gift, when: "{{ false }}"}]}
  - {step: bill, tool: {kind: noop, args: {sum: 7}}, next: {arcs: [{step: close}]}}
  - {step: deliver, next: {arcs: [{step: close}]}}
  - {step: gift, next: {arcs: [{step: close}]}}
  - {step: close, spec: {join: active}}
""",
    "saga": """
workflow:
  - step: start
    tool: {kind: python, code: "result = {'flight': 'N7'}"}
    compensate:
      spec: {idempotent: true}
      tool: {kind: python, args: {flight: "{{ result.flight }}"}, code: "result = f'cancelled {flight}'"}
    next: {arcs: [{step: hotel}]}
  - step: hotel
    tool: {kind: python, code: "raise RuntimeError('no room left')"}
    next:
      arcs: [{step: sorry, when: "{{ event.name == 'step.failed' }}", spec: {trigger_compensation: true}}]
  - {step: sorry, tool: {kind: noop, args: {said: nothing was booked}}}
""",
    "hooks": """
workflow:
  - step: start
    tool:
      - {name: later, kind: python, code: "result = 'done beside'", spec: {async: true}}
      - name: work
        kind: python
        args: {token: "{{ login.token }}"}
        code: "result = token"
        spec:
          policy:
            before: [{name: login, kind: python, code: "result = {'token': 't'}"}]
            rules: [{else: {then: {do: continue}}}]
""",
    "child": """
workload: {n: 1}
workflow:
  - {step: start, tool: {kind: python, args: {n: "{{ workload.n }}"}, code: "result = {'n': n + 1}"}}
""",
    "parent": """
workflow:
  - step: start
    tool: {kind: playbook, path: shapes/child, args: {n: 41}}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, args: {answer: "{{ start.data }}"}}}
""",
    "large": """
workflow:
  - step: start
    tool: {kind: python, code: "result = {'rows': [{'id': n, 'text': 'row ' + str(n) * 40} for n in range(1200)]}"}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, args: {rows: "{{ start.data.rows | length }}"}}}
""",
    "case": """
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
    case:
      - when: "{{ event.name == 'call.done' }}"
        then:
          - first: {tool: {kind: python, args: {n: "{{ result + 1 }}"}, code: "result = n"}}
          - next: {next: [{step: after}]}
  - {step: after, tool: {kind: python, code: "result = 'end'"}}
""",
    "timed": "\nworkflow:\n  - {step: start, timer: {duration: P3650D}}\n",
    "asked": """
workflow:
  - step: start
    human_task:
      title: Approve it
      assignee: {role: manager}
      form: [{field: decision, type: enum, options: [approve, reject], required: true}]
    next: {arcs: [{step: end}]}
  - {step: end}
""",
    "awaited": """
workflow:
  - {step: start, message: {name: paid, correlation: {order: 7}}, next: {arcs: [{step: end}]}}
  - {step: end}
""",
    "paused": "\nworkflow:\n  - {step: start, timer: {duration: P3650D}}\n",
    "cancelled": "\nworkflow:\n  - {step: start, timer: {duration: P3650D}}\n",
}
OLDER = {"case"}  # in the dialect whose rules are walked at run time
OPEN = {"timed", "asked", "awaited", "paused", "cancelled"}
# Of one execution. Each is a position in its log where one has a number: the past is shown, too.
ROUTES = (
    "",
    "/ctx",
    "/events?limit=1000",
    "/events?types=step.*&names=legacy",
    "/explain",
    "/graph?format=json",
    "/limits",
    "/logs",
    "/loops",
    "/projection",
    "/projection?at=7",
    "/projection?since=5",
    "/result",
    "/result?step=start",
    "/state",
    "/state?at=6",
    "/steps",
    "/timers",
    "/tokens",
)
COMMANDS = (
    ("status", "-o", "json"),
    ("events", "-o", "json"),
    ("logs", "-o", "jsonl"),
    ("result",),
    ("ctx",),
    ("explain", "-o", "json"),
    ("replay", "-o", "json"),
)
LISTS = (
    "",
    "status=running",
    "status=paused",
    "status=completed",
    "status=failed",
    "status=cancelled",
    "path=shapes/loop",
    "path=shapes/*ed",
    "path=shapes/c*&status=completed",
    "label=team%3Dodd",
    "since=2020-01-01T00:00:00Z&until=2021-01-01T00:00:00Z",
)


RESULTS = "results"  # the folder of large values, below that of a program


class Program:
    """A `noetl` of some version: `command` starts it, `environment` says whose code it is. `processes` has `run` and
    `Popen`, as `subprocess` has."""

    def __init__(
        self, command: Sequence[str], folder: Path, *, processes: Any = subprocess, **environment: str
    ) -> None:
        self._command, self._folder, self._processes = list(command), folder, processes
        own = {"NOETL_HOME": str(folder / "home"), "NO_COLOR": "1", "NOETL_RETENTION_DAYS": "36500"}
        own["NOETL_RESULTS"] = str(folder / RESULTS)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
        self._environment = {**kept, **own, **environment}

    def call(self, *arguments: str) -> tuple[int, str]:
        how = {"cwd": self._folder, "env": self._environment, "capture_output": True, "text": True}
        done = self._processes.run([*self._command, *arguments], check=False, **how)
        return done.returncode, done.stdout

    @contextmanager
    def serving(self, *arguments: str) -> Iterator[Server]:
        log = self._folder / "server.log"
        with log.open("wb") as out:
            how = {"cwd": self._folder, "env": self._environment, "stdout": out, "stderr": out}
            process = self._processes.Popen([*self._command, *arguments], **how)
        try:
            token = self._folder / "token"
            while not (found := re.search(r"NoETL at (\S+),", log.read_text())):
                if process.poll() is not None:
                    raise RuntimeError(log.read_text())
                time.sleep(0.05)
            yield Server(found[1], token.read_text().strip() if token.exists() else "")
        finally:
            process.terminate()
            process.wait(120)


class Server:
    """The responses of a server, with the status of refusals: these are views, too."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        data = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        kind = "application/yaml" if isinstance(body, str) else "application/json"
        heads = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        try:
            with urlopen(Request(self._url + path, data, heads, method=method), timeout=600) as answer:
                return json.loads(answer.read() or b"null")
        except HTTPError as refusal:
            return {"refused": refusal.code, **json.loads(refusal.read())}

    def listed(self, wanted: str) -> list[dict[str, Any]]:
        """Every row of a list, page by page."""
        rows: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = self.ask(f"/api/executions?{wanted}&limit=500{cursor}")
            rows += page["executions"]
            if page.get("next") is None:
                return rows
            cursor = f"&cursor={quote(page['next'])}"


def begin_all(server: Server) -> dict[str, str]:
    """Ids by shape, once each is over or waits for what does not come."""
    ids = {}
    for number, (name, text) in enumerate(SHAPES.items()):
        head = HEAD.format(name, "odd" if number % 2 else "even").replace("v10", "v2" if name in OLDER else "v10")
        made = server.ask("/api/catalog", head + text)
        assert "refused" not in made, made
        ids[name] = server.ask("/api/executions", {"path": f"shapes/{name}"})["execution_id"]
    for name, one in ids.items():
        while True:
            seen = server.ask(f"/api/executions/{one}")
            waits = server.ask(f"/api/executions/{one}/tokens")["tokens"]
            if seen["status"] not in ("running", "paused") or (
                name in OPEN and any(w["state"] == "waiting" for w in waits)
            ):
                break
            time.sleep(0.1)
    server.ask(f"/api/executions/{ids['paused']}/pause", {}, "POST")
    server.ask(f"/api/executions/{ids['cancelled']}/cancel", {"reason": "enough"}, "POST")
    return ids


def shown(server: Server, execution_id: str) -> dict[str, Any]:
    """The views of an execution on a server, by route."""
    return {route: server.ask(f"/api/executions/{execution_id}{route}") for route in ROUTES}


def command_outputs(program: Program, db: str, execution_id: str) -> dict[str, Any]:
    """The output of commands about an execution in a store, by command."""
    return {" ".join(one): program.call(*one, execution_id, "--db", db) for one in COMMANDS}


def main(db: str, answers: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        program = Program([sys.executable, "-m", "noetl.cli.main"], folder)
        serving = ("server", "start", "--port", "0", "--db", db, "--token-file", str(folder / "token"))
        with program.serving(*serving, "--workers-in-process", "4") as server:
            ids = begin_all(server)
        with program.serving(*serving) as server:
            views = {name: shown(server, one) for name, one in ids.items()}
            lists = {wanted: server.listed(wanted) for wanted in LISTS}
        commands = {name: command_outputs(program, db, one) for name, one in ids.items()}
        results = {
            str(one.relative_to(folder / RESULTS)): one.read_text() for one in (folder / RESULTS).rglob("*.json")
        }
    said = {"ids": ids, "views": views, "commands": commands, "lists": lists, "results": results}
    Path(answers).write_bytes(gzip.compress(json.dumps(said).encode(), mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:3])
