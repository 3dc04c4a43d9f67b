"""Values of tens of megabytes: what an API caller asks of them is not decoded in the server's process.

Decoding one is a single call, which holds up every other request however many threads there are."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx2
import msgspec
import pytest

from noetl.control.commit.sharing import NEAR_BYTES
from noetl.events.orders import Order
from noetl.tools.contract import ToolResult
from tests.playbook_runs import Scripted
from tests.server.talking import LONGEST_S, Talk, WorkerClient, talking
from tests.server.worker_turns import holding, storing

ROWS = [{"id": number, "name": f"customer {number}", "note": "x" * 60} for number in range(30_000)]
TEXT = "workflow: [{step: start, tool: [{name: work, kind: KIND}]}]"
KINDS = {"python": "kind: python, code: x", "http": "kind: http, url: 'https://example.org'"}
PLACES = ("result", "result/file", "result/part", "result/part?pointer=/29999", "result/part?offset=29990")


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the values that this process decodes whole."""
    sizes, decode = [0], msgspec.json.decode

    def noted(body: Any, **more: Any) -> Any:
        if not more:
            sizes.append(memoryview(body).nbytes if not isinstance(body, str) else len(body))
        return decode(body, **more)

    monkeypatch.setattr(msgspec.json, "decode", noted)
    return sizes


async def ran(talk: Talk, kind: str) -> str:
    await talk.register(TEXT.replace("kind: KIND", KINDS[kind]))
    return str((await talk.start(wait=LONGEST_S))["execution_id"])


def tools(kind: str) -> dict[str, Any]:
    answer = {"status": 200, "data": ROWS}
    return {kind: Scripted(work=[ToolResult(result=answer, wrapped=True) if kind == "http" else ROWS])}


@pytest.mark.req("RES-05", "SRV-09")
@pytest.mark.parametrize("kind", ["python", "http"])
async def test_reading_a_large_result_decodes_nothing_large_in_the_server(kind: str, decoded: list[int]) -> None:
    async with talking(tools=tools(kind)) as talk:
        execution_id = await ran(talk, kind)
        decoded.clear()
        answers = [await talk.client.get(f"/api/executions/{execution_id}/{place}") for place in PLACES]
        largest = max(decoded, default=0)
        whole, file, part, row, last = (answer.json() for answer in answers)

    assert largest <= NEAR_BYTES
    assert whole["result"] == file == ROWS
    assert (part["count"], len(part["entries"])) == (len(ROWS), 100)
    assert row["value"] == ROWS[-1]
    assert [entry["value"] for entry in last["entries"]] == ROWS[-10:]


@pytest.mark.req("RES-05")
async def test_a_start_that_waits_for_a_large_result_decodes_nothing_large(decoded: list[int]) -> None:
    async with talking(tools=tools("python")) as talk:
        await talk.register(TEXT.replace("kind: KIND", KINDS["python"]))
        decoded.clear()
        begun = await talk.client.post("/api/executions", json={"path": "tests/test", "wait": LONGEST_S})
        largest = max(decoded, default=0)

    assert largest <= NEAR_BYTES
    assert begun.json()["result"] == ROWS


async def stored(worker: WorkerClient, order: Order, body: bytes) -> httpx2.Response:
    place = f"/api/results/{hashlib.sha256(body).hexdigest()}"
    json = {"content-type": "application/json"}
    return await worker.put(place, content=body, params=storing(worker, order), headers=json)


@pytest.mark.req("RES-01", "RES-05")
async def test_storing_a_large_value_and_reading_its_parts_decodes_nothing_large(decoded: list[int]) -> None:
    body = msgspec.json.encode(ROWS)
    async with talking(workers=0) as talk:
        worker, order = await holding(talk, TEXT.replace("kind: KIND", KINDS["python"]))
        decoded.clear()
        reference = (await stored(worker, order, body)).json()
        part = await talk.client.get(f"/api/results/{reference['checksum']}/part?pointer=/7/name")
        largest = max(decoded, default=0)

        assert largest <= NEAR_BYTES
        assert (part.json()["value"], reference["size"]) == ("customer 7", len(body))
        assert (await talk.client.get(f"/api/results/{reference['checksum']}/part?pointer=/x")).status_code == 422
        assert (await stored(worker, order, body[:-1])).status_code == 400
        assert (await stored(worker, order, body.replace(b":", b": ", 1))).status_code == 422
        assert (await stored(worker, order, b"[" * (NEAR_BYTES + 1))).status_code == 400
