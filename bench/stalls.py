"""How long the largest bodies hold up a server: for each route the longest time of processor that the server spent
before it answered another connection.

    .venv/bin/python -m bench.stalls [ROUTE...]

A server of its own on a fresh file. One connection sends the largest bodies that a route accepts, of the shapes that
cost most; a second one asks for `/api/health/live` meanwhile. Processor time, not the time on a clock: on a busy
machine that says more about the others. Tests count the work instead (tests/security/test_large_bodies.py).
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from bench.figures import Row, row
from noetl.events.orders import MAX_TURN_BYTES, MAX_TURN_ENTRIES, MAX_TURN_REPORTS

GROUP = "stalls"
GOAL_MS = 250.0
MIB = 1 << 20
TURN = MAX_TURN_BYTES
YAML, JSON = {"content-type": "text/yaml"}, {"content-type": "application/json"}
HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: stalls, path: bench/stalls}\n"
WORK = (
    HEAD
    + """
keychain: [{name: pass, kind: env, var: STALLS_SECRET}]
workload: {data: null}
workflow:
  - step: start
    tool: [{name: work, kind: python, args: {p: "{{ keychain.pass }}"}, code: "result = 1"}]
    next: {arcs: [{step: last}]}
  - {step: last, tool: {kind: noop}}
"""
)
WAITING = (
    HEAD.replace("stalls", "waiting")
    + """
workflow:
  - step: start
    human_task: {title: T, assignee: {role: clerk}, form: [{field: text, type: text}]}
"""
)


def filled(value: Callable[[str], str], piece: str, size: int) -> bytes:
    """A body of `size` bytes: `value` around as many pieces as there is room for."""
    room = size - len(value("").encode()) - 1
    return value(",".join([piece] * (room // (len(piece.encode()) + 1)))).encode()


SETTINGS = {
    "NOETL_LEASE_TTL": "600",
    "NOETL_SECRET_VARIABLES": "STALLS_SECRET",
    "STALLS_SECRET": "a-secret-of-the-bench",
}
SHAPES = {  # what costs most to read for its bytes
    "lists": "[]",
    "objects": "{}",
    "numbers": "1",
    "texts": '""',
    "long": '"' + "x" * 1000 + '"',
}


def processor_ms(pid: int) -> float:
    """Of all its threads: one that decodes a large value holds the interpreter, so the event loop waits as well."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6


class Pings:
    """Asks for the health of the server all the time; keeps the longest processor time of one answer."""

    def __init__(self, port: int, pid: int) -> None:
        self._port, self._pid, self.longest_ms, self.longest_s = port, pid, 0.0, 0.0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        while not self._ends.is_set():
            began, at = processor_ms(self._pid), time.monotonic()
            line.request("GET", "/api/health/live")
            line.getresponse().read()
            self.longest_ms = max(self.longest_ms, processor_ms(self._pid) - began)
            self.longest_s = max(self.longest_s, time.monotonic() - at)
            self._ends.wait(0.005)

    def __enter__(self) -> Pings:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._ends.set()
        self._thread.join()


class Server:
    def __init__(self, folder: Path) -> None:
        self.token_file, told = folder / "token", folder / "told"
        command = [sys.executable, "-m", "noetl.cli.main", "server", "start", "--port", "0", "--db", f"{folder}/s.db"]
        command += ["--token-file", str(self.token_file)]
        with told.open("w") as output:
            self.process = subprocess.Popen(
                command,
                env={
                    **os.environ,
                    "NOETL_HOME": str(folder),
                    "NOETL_LEASE_TTL": "600",
                    "STALLS_SECRET": "a-secret-of-the-bench",
                    "NOETL_SECRET_VARIABLES": "STALLS_SECRET",
                },
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        while not (found := re.search(r"NoETL at (http://[\d.]+:(\d+))", told.read_text())):
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended: {told.read_text()[-2000:]}")
            time.sleep(0.1)
        self.url, self.port = found[1], int(found[2])
        self.admin = self._client(self.token_file.read_text().strip())
        made = self.admin.post("/api/tokens", json={"subject": "w", "role": "worker", "pools": ["default"]})
        self.worker = self._client(made.raise_for_status().json()["token"])
        clerk = {"subject": "c", "role": "operator", "human_roles": ["clerk"]}
        self.clerk = self._client(self.admin.post("/api/tokens", json=clerk).raise_for_status().json()["token"])
        told_id = self.worker.post("/api/workers", json={"name": "w", "instance": "1"}).raise_for_status().json()
        self.worker_id = told_id["worker_id"]

    def _client(self, token: str) -> httpx2.Client:
        headers = {"authorization": f"Bearer {token}", "noetl-protocol": "1"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=300)

    def started(self, text: str) -> str:
        made = self.admin.post("/api/catalog", content=text, headers=YAML).raise_for_status().json()
        begun = self.admin.post("/api/executions", json={"path": made["path"]}).raise_for_status().json()
        return str(begun["execution_id"])

    def order(self) -> dict[str, Any]:
        """An order that the worker holds; its execution has read a secret."""
        self.started(WORK)
        asked = {"worker_id": self.worker_id, "capacity": 1}
        answer = self.worker.post("/api/orders/turn", json=asked, params={"wait_s": 20}).raise_for_status().json()
        [order] = answer["orders"]
        ask = {name: order[name] for name in ("execution_id", "order_id", "lease_epoch")}
        ask |= {"worker_id": self.worker_id, "name": "pass"}
        self.worker.post("/api/orders/secret", json=ask)
        return dict(order)


@contextmanager
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        made = Server(Path(folder))
        try:
            yield made
        finally:
            made.process.terminate()
            made.process.wait()


Attack = tuple[str, str, dict[str, Any]]  # method, path, and what goes with them


def attacks(made: Server) -> Iterator[tuple[str, Attack, httpx2.Client]]:
    """Each body with its name and the client that sends it."""
    yield from _of_workers(made)
    yield from _of_texts(made)
    yield from _of_data(made)


def _of_workers(made: Server) -> Iterator[tuple[str, Attack, httpx2.Client]]:
    order, worker = made.order(), made.worker_id
    held = {name: order[name] for name in ("order_id", "execution_id", "lease_epoch")} | {"worker_id": worker}
    run = f"{order['step_run_id']}/work"
    started = {
        "event": "task.started",
        "task": "work",
        "kind": "python",
        "visit": 1,
        "attempt": 1,
        "task_run_id": run,
        "worker_id": worker,
    }
    meta = {"attempt": 1, "started_at": 1.0, "finished_at": 2.0, "trace_id": order["trace_id"], "task_run_id": run}

    def turn(value: str) -> str:
        processed = {
            "event": "task.processed",
            "task": "work",
            "visit": 1,
            "attempt": 1,
            "task_run_id": run,
            "outcome": {"status": "success", "meta": meta, "result": "VALUE"},
            "decision": {"rule": "default", "do": "continue"},
        }
        report = held | {"entries": [{"at": 1.0, "entry": started}, {"at": 2.0, "entry": processed}]}
        asked = {"worker_id": worker, "reports": [report]}
        return msgspec.json.encode(asked).decode().replace('"VALUE"', f"[{value}]")

    def reports(value: str) -> str:
        return f'{{"worker_id":"{worker}","reports":[{value}]}}'

    one = msgspec.json.encode(held | {"entries": []}).decode()
    entry = msgspec.json.encode({"at": 1.0, "entry": started}).decode()
    most_entries = ",".join([entry] * MAX_TURN_ENTRIES)
    bodies = {f"one result of {name}": filled(turn, piece, TURN) for name, piece in SHAPES.items()}
    bodies["empty reports"] = filled(reports, one, TURN)
    bodies["the most reports"] = reports(",".join([one] * MAX_TURN_REPORTS)).encode()
    bodies["small entries"] = filled(lambda value: reports(one.replace("[]", f"[{value}]")), entry, TURN)
    bodies["the most entries"] = reports(one.replace("[]", f"[{most_entries}]")).encode()
    bodies["a field of its own"] = filled(
        lambda value: turn("").replace('"event"', f'"zz":[{value}],"event"', 1), "[]", TURN
    )
    for name, body in bodies.items():
        yield f"turn, {name}", ("POST", "/api/orders/turn", _json(body)), made.worker
    for name, piece in SHAPES.items():
        body = filled(lambda value: f"[{value}]", piece, 64 * MIB)
        asked = {"worker_id": worker, "execution_id": order["execution_id"]}
        place = f"/api/results/{hashlib.sha256(body).hexdigest()}"
        yield f"results, 64 MiB of {name}", ("PUT", place, _json(body) | {"params": asked}), made.worker
    leases = filled(lambda value: f'{{"worker_id":"{worker}","leases":{{{value}}}}}', '"ORDERID":1', MIB)
    numbers = iter(range(10_000_000))
    leases = re.sub(b"ORDERID", lambda _: b"%07d" % next(numbers), leases)
    yield "heartbeat of many leases", ("POST", "/api/orders/heartbeat", _json(leases)), made.worker
    line = held | {"task": "work", "task_run_id": run, "lines": ["x"]}
    many = filled(
        lambda value: f'{{"worker_id":"{worker}","chunks":[{value}]}}', msgspec.json.encode(line).decode(), MIB // 2
    )
    yield "output of many chunks", ("POST", "/api/orders/output", _json(many)), made.worker
    call = msgspec.json.encode(held | {"step_run_id": order["step_run_id"], "task_run_id": run, "path": "a/b"}).decode()
    for name, piece in SHAPES.items():
        body = filled(lambda value: call[:-1] + f',"payload":{{"a":[{value}]}}}}', piece, MIB)
        yield f"call with {name}", ("POST", "/api/orders/call", _json(body)), made.worker
    pools = filled(lambda value: f'{{"name":"x","pools":[{value}]}}', '"default"', MIB)
    yield "worker of many pools", ("POST", "/api/workers", _json(pools)), made.worker
    labels = re.sub(
        b"NAME",
        lambda _: b"%07d" % next(numbers),
        filled(lambda v: f'{{"name":"x","labels":{{{v}}}}}', '"NAME":""', MIB),
    )
    yield "worker of many labels", ("POST", "/api/workers", _json(labels)), made.worker


def _json(body: bytes) -> dict[str, Any]:
    return {"content": body, "headers": JSON}


def texts() -> dict[str, str]:
    """Playbooks of a MiB."""

    def steps(step: Callable[[int], str], end: str = "") -> str:
        lines, size, number = [HEAD, "workflow:\n"], 0, 0
        while size < MIB - 3000:
            lines.append(step(number))
            size, number = size + len(lines[-1]), number + 1
        return "".join(lines) + end

    def step_name(number: int) -> str:
        return "start" if not number else f"s{number}"

    plain = "{kind: noop}"
    start, noop = HEAD + "workflow:\n- step: start\n  ", "\nworkflow: [{step: start, tool: {kind: noop}}]\n"
    return {
        "steps without arcs": steps(lambda n: f"- {{step: {step_name(n)}, tool: {plain}}}\n"),
        "a chain": steps(lambda n: f"- {{step: {step_name(n)}, next: {{arcs: [{{step: s{n + 1}}}]}}}}\n"),
        "arcs to all": start + "next: {arcs: [" + "{step: s1}," * 80_000 + "]}\n- {step: s1}\n",
        "wrong keys": steps(lambda n: f"- {{step: {step_name(n)}, tol: {plain}}}\n"),
        "one long scalar": start + "tool: {kind: python, code: '" + "x = 1; " * 140_000 + "'}\n",
        "one long template": start + "tool: {kind: noop, args: {a: '{{ " + "1 + " * 250_000 + "1 }}'}}\n",
        "many templates": start + "tool: {kind: noop, args: {a: [" + "'{{ ctx.a }}'," * 70_000 + "]}}\n",
        "a large payload": HEAD + "workload: {a: [" + "1," * 500_000 + "]}" + noop,
        "many lists": HEAD + "workload: {a: [" + "[]," * 330_000 + "]}" + noop,
        "no YAML": "[" * MIB,
        "one line": "x" * (MIB - 10),
        "blank lines": HEAD + "\n" * (MIB - 200) + "workflow: [{step: start}]\n",
        "comments": HEAD + "# x\n" * (MIB // 4 - 100) + "workflow: [{step: start}]\n",
        "duplicate keys": HEAD + "workload: {" + "a: 1, " * 170_000 + "}" + noop,
        "many keys": HEAD + "workload: {" + "".join(f"k{n}: 1, " for n in range(80_000)) + "}" + noop,
        "SQL": start + 'tool: {kind: postgres, auth: x, command: "' + "select '{{ ctx.a }}' ;" * 45_000 + '"}\n',
        "shell": start + 'tool: {kind: shell, command: "' + "echo {{ ctx.a }} ;" * 55_000 + '"}\n',
    }


def _of_texts(made: Server) -> Iterator[tuple[str, Attack, httpx2.Client]]:
    for name, text in texts().items():
        body = {"content": text.encode(), "headers": YAML}
        for place in ("validate", "format", "migrate", "catalog", "analyze", "inputs"):
            yield f"{place}, {name}", ("POST", f"/api/{place}", body), made.admin
        as_json = {"source": text[: MIB - text.count("\n") - text.count('"') - 300]}
        for place, more in (
            ("graph", {}),
            ("cost", {}),
            ("names", {"offset": 500_000}),
            ("steps/form", {"step": "start"}),
            ("executions/draft", {}),
            ("executions/step-test", {"step": "start"}),
        ):
            yield f"{place}, {name}", ("POST", f"/api/{place}", {"json": {**as_json, **more}}), made.admin


def _of_data(made: Server) -> Iterator[tuple[str, Attack, httpx2.Client]]:
    made.started(WAITING)
    made.admin.post("/api/catalog", content=WORK, headers=YAML).raise_for_status()
    execution_id = made.started(WORK)
    wrapped: dict[str, tuple[str, str, str]] = {
        "session": ("POST", "/api/session", '{"token":[VALUE]}'),
        "start": ("POST", "/api/executions", '{"path":"bench/stalls","payload":{"data":[VALUE]}}'),
        "message": ("POST", "/api/messages", '{"name":"m","payload":[VALUE]}'),
        "message, correlation": ("POST", "/api/messages", '{"name":"m","correlation":{"a":[VALUE]}}'),
        "signal": ("POST", "/api/signals", '{"name":"m","data":[VALUE]}'),
        "event": ("POST", f"/api/executions/{execution_id}/events", '{"name":"e","data":[VALUE]}'),
        "rerun": ("POST", f"/api/executions/{execution_id}/rerun", '{"payload":{"data":[VALUE]}}'),
        "credential": ("PUT", "/api/credentials/c", '{"type":"json","value":{"a":[VALUE]}}'),
        "schema": ("PUT", "/api/schemas/s", '{"schema":{"enum":[VALUE]}}'),
        "schema, any of": ("PUT", "/api/schemas/t", '{"schema":{"anyOf":[VALUE]}}'),
        "trigger": ("POST", "/api/triggers", '{"name":"t","path":"a/b","kind":"postgres","inputs":{"a":[VALUE]}}'),
        "rule": ("PUT", "/api/notification-rules/r", '{"on":[VALUE]}'),
        "webhook": ("POST", "/api/webhooks", '{"name":"h","path":"bench/stalls","correlation":{"a":[VALUE]}}'),
        "token": ("POST", "/api/tokens", '{"subject":"x","role":"viewer","human_roles":[VALUE]}'),
        "render": ("POST", "/api/render", f'{{"execution_id":"{execution_id}","template":[VALUE]}}'),
        "bulk": ("POST", "/api/executions/bulk", '{"action":"pause","path":[VALUE]}'),
        "validate, JSON": ("POST", "/api/validate", '{"source":[VALUE]}'),
    }
    for what, (method, place, form) in wrapped.items():
        for name, piece in SHAPES.items():
            before, _, after = form.partition("VALUE")
            body = filled(partial(_between, before, after), piece, MIB)
            yield f"{what} with {name}", (method, place, _json(body)), made.admin
    numbers = iter(range(1 << 30))
    keys = re.sub(b"KEY", lambda _: b"%06x" % next(numbers), filled(lambda v: f"{{{v}}}", '"KEY":1', MIB))
    for what, (method, place, _) in wrapped.items():
        yield f"{what}, unknown fields", (method, place, _json(keys)), made.admin
    [task, *_] = made.clerk.get("/api/tasks").raise_for_status().json()["tasks"]
    place = f"/api/tasks/{task['task_id']}"
    made.clerk.post(f"{place}/claim").raise_for_status()
    for name, piece in SHAPES.items():
        body = filled(lambda value: f'{{"values":{{"text":[{value}]}}}}', piece, MIB)
        yield f"task with {name}", ("POST", f"{place}/complete", _json(body)), made.clerk
    yield "task, long comment", ("POST", f"{place}/comment", {"json": {"text": "x" * 1_000_000}}), made.clerk


def _between(before: str, after: str, value: str) -> str:
    return before + value + after


def measured(repeats: int, wanted: tuple[str, ...] = ()) -> list[Row]:
    rows = []
    with server() as made:
        for name, (method, place, more), client in attacks(made):
            if wanted and not any(one in name for one in wanted):
                continue
            with Pings(made.port, made.process.pid) as pings:
                answer = client.request(method, place, **more)
            rows.append(row(GROUP, f"{name} → {answer.status_code}", pings.longest_ms, GOAL_MS, "ms"))
            print(f"{pings.longest_ms:8.0f} ms {pings.longest_s:7.2f} s  {answer.status_code}  {name}", flush=True)
    return rows


if __name__ == "__main__":
    found = sorted(measured(1, tuple(sys.argv[1:])), key=lambda one: -one["value"])
    print(f"longest: {found[0]['value']:.0f} ms, {found[0]['what']}" if found else "no such route")
