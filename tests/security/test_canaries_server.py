"""Fifty secrets through a server and a remote worker, in processes of their own: none of them is found anywhere but in
the tool calls (F16, P13).
"""

from __future__ import annotations

import base64
import json
import os
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.processes_here import Here, here
from tests.security.canary_yard import COUNT, GOES_ON, Yard, secret
from tests.waiting import until

LOOKED_AT = (
    "",
    "/events?limit=500",
    "/logs?limit=500",
    "/result",
    "/timeline",
    "/explain",
    "/projection",
    "/loops",
    "/ctx",
    "/timers",
)


def playbook() -> dict[str, Any]:
    """Each secret is returned, printed, raised, sent to where nobody listens, and put into a large result."""
    tasks: list[dict[str, Any]] = []
    for number in range(COUNT):
        args, name = {"s": secret(number)}, f"t{number}"
        match number % 5:
            case 0:
                tasks.append({"kind": "python", "args": args, "code": "result = {'deep': [s, {s: s}]}"})
            case 1:
                tasks.append({"kind": "python", "args": args, "code": "print(s); raise ValueError('no ' + s)"})
            case 2:
                url, headers = f"http://127.0.0.1:9/{secret(number)}", {"x-key": secret(number)}
                tasks.append({"kind": "http", "url": url, "headers": headers})
            case 3:
                tasks.append({"kind": "python", "args": args, "code": "result = [s] * (100_000 // len(s))"})
            case _:
                code = "import base64; result = base64.b64encode(('user:' + s).encode()).decode()"
                tasks.append({"kind": "python", "args": args, "code": code})
        tasks[-1] = {"name": name, "spec": GOES_ON, **tasks[-1]}
    return {
        "apiVersion": "noetl.io/v10",
        "kind": "Playbook",
        "metadata": {"name": "canaries", "path": "tests/canaries"},
        "keychain": [{"name": f"c{number}", "kind": "credential"} for number in range(COUNT)],
        "workflow": [{"step": "start", "tool": tasks}],
    }


@pytest.mark.req("KEY-06", "KEY-07")
@pytest.mark.timeout(240)
def test_no_secret_remains_anywhere_on_a_server(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    (tmp_path / "data").mkdir()
    key = base64.b64encode(os.urandom(32)).decode()
    with here(tmp_path) as place:
        place.server("--db", str(yard.db), NOETL_MASTER_KEY=key)
        place.worker("--allow-address", "127.0.0.1")
        streamed: list[str] = []
        reader = threading.Thread(target=_read, args=(place, streamed), daemon=True)
        reader.start()
        until(lambda: streamed)  # its first word is that it is there
        seen, tasks = _told(place, yard)
    reader.join(60)  # the stream has ended with the server
    yard.shown |= seen | {"logs": place.logs(), "streams": "".join(streamed)}

    assert "tests/canaries" in yard.shown["streams"], "the stream has told of it"
    assert len(tasks) == COUNT
    assert sum(task["outcome"]["status"] == "success" for task in tasks) == COUNT * 3 // 5, "the tools had them"
    assert yard.left() == []


def _told(place: Here, yard: Yard) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Everything the API says of such an execution, and the ends of its tasks."""
    headers = {"authorization": f"Bearer {place.token}"}
    seen: dict[str, str] = {}
    with httpx2.Client(base_url=place.url, headers=headers, timeout=500, trust_env=False) as client:
        for number, canary in enumerate(yard.canaries):
            put = client.put(f"/api/credentials/c{number}", json={"value": canary, "type": "bearer"})
            assert put.status_code == 200, put.text
            seen[f"put {number}"] = put.text
        client.post("/api/catalog", json={"source": json.dumps(playbook(), ensure_ascii=False)}).raise_for_status()
        answer = client.post("/api/executions", json={"path": "tests/canaries", "wait": 60})
        one = f"/api/executions/{answer.json()['execution_id']}"
        ended = until(lambda: (now := client.get(one).json())["status"] != "running" and now, within_s=150)
        assert ended["status"] == "completed", ended
        seen["started"] = answer.text
        for path in (*(f"{one}{part}" for part in LOOKED_AT), "/api/credentials", "/api/audit", "/metrics"):
            seen[path] = client.get(path).text
        seen["stream"] = client.get(f"{one}/stream").text
        events = client.get(f"{one}/events?limit=500").json()["events"]
    return seen, [event["payload"] for event in events if event["event_type"] == "task.processed"]


def _read(place: Here, streamed: list[str]) -> None:
    headers = {"authorization": f"Bearer {place.token}"}
    with httpx2.Client(base_url=place.url, headers=headers, timeout=500, trust_env=False) as client:
        try:
            with client.stream("GET", "/api/stream") as answer:
                streamed.extend(answer.iter_text())
        except httpx2.HTTPError:
            return  # the server has ended
