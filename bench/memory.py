"""Memory of a server after executions that are over: its resident size after some, and after twenty times as many.

    .venv/bin/python bench/memory.py SHAPE FIRST [MORE...] LAST

Each count is printed as soon as it is reached. A server of its own on a fresh file, with workers in its process;
executions are started over HTTP by several callers.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2

CALLERS = {"long-loop": 2}  # how many start executions at once; each of these holds some megabytes while it is open
USUAL_CALLERS = 16
HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: memory, path: bench/memory}\n"
SHAPES = {
    "small": """
workflow:
  - {step: start, tool: {kind: noop}, set_ctx: {a: "{{ execution_id }}"}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: noop}}
""",
    "large": """
workload: {text: ""}
workflow:
  - {step: start, tool: {kind: noop}, set_ctx: {a: "{{ workload.text }}"}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: noop}, set_ctx: {b: "{{ ctx.a }}"}}
""",
    "loop": """
workflow:
  - step: start
    loop: {in: "{{ range(100) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 10}}
    tool: [{name: work, kind: noop, args: {item: "{{ iter.item }}"}}]
""",
    "long-loop": """
workflow:
  - step: start
    loop: {in: "{{ range(6000) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 10}}
    tool: [{name: work, kind: noop, args: {item: "{{ iter.item }}"}}]
""",
    "failing": """
workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: noop, args: {a: "{{ 1 / 0 }}"}}}
""",
    "children": """
workflow:
  - {step: start, tool: {kind: playbook, path: bench/child}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: noop}}
""",
    "waiting": """
workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: last}]}}
  - {step: last, timer: {duration: PT0.05S}}
""",
}
CHILD = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: child, path: bench/child}
workflow:
  - {step: start, tool: {kind: noop}}
"""
ENDS = {"failing": "failed"}  # how the executions of a shape end, where it is not "completed"


def resident_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", text)
    assert found is not None
    return int(found[1]) / 1024


async def run(url: str, token: str, number: int, payload: dict[str, str], shape: str) -> None:
    """Start so many and wait for the end of each."""
    headers = {"authorization": f"Bearer {token}"}
    numbers = iter(range(number))
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=120) as client:

        async def call() -> None:
            for _ in numbers:
                body = {"path": "bench/memory", "payload": payload, "wait": 60}
                while (answer := await client.post("/api/executions", json=body)).status_code == 429:
                    await asyncio.sleep(1)
                view = answer.json()
                while view["status"] == "running":  # longer than a start waits
                    await asyncio.sleep(1)
                    view = (await client.get(f"/api/executions/{view['execution_id']}")).json()
                assert view["status"] == ENDS.get(shape, "completed"), view

        await asyncio.gather(*(call() for _ in range(CALLERS.get(shape, USUAL_CALLERS))))


async def measure(shape: str, counts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        token_file = Path(folder) / "token"
        command = [sys.executable, "-m", "noetl.cli.main", "server", "start", "--port", "0", "--db", f"{folder}/s.db"]
        command += ["--workers-in-process", "4", "--token-file", str(token_file)]
        environment = {**os.environ, "NOETL_HOME": folder}
        reports = Path(folder) / "told"
        with reports.open("w") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            while not (found := re.search(r"NoETL at (http://[\d.]+:\d+)", reports.read_text())):
                if process.poll() is not None:
                    raise RuntimeError(f"the server ended: {reports.read_text()[-2000:]}")
                await asyncio.sleep(0.1)
            url = found[1]
            token = token_file.read_text().strip()
            headers = {"authorization": f"Bearer {token}", "content-type": "text/yaml"}
            for text in (CHILD, HEAD + SHAPES[shape]):
                httpx2.post(f"{url}/api/catalog", content=text, headers=headers, timeout=120).raise_for_status()
            payload = {"text": "x" * 20_000} if shape == "large" else {}
            print(f"{shape}: {resident_mib(process.pid):.0f} MiB at start", flush=True)
            first_mib, done = 0.0, 0
            for count in counts:
                await run(url, token, count - done, payload, shape)
                done, now_mib = count, resident_mib(process.pid)
                first_mib = first_mib or now_mib
                print(f"{shape}: {now_mib:.0f} MiB after {count}: {now_mib / first_mib:.2f} times", flush=True)
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1], [int(count) for count in sys.argv[2:]]))
