"""Every route that reads a body, against bodies made to break it; every text, stored as it is or refused (F9, F10)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from noetl.events.orders import MAX_BATCH_BYTES
from noetl.operations.administration_shapes import Role
from noetl.store.postgres.store import PostgresStore
from tests.contracts.stores import fresh_url
from tests.server.hostile import not_json, odd_json, strings
from tests.server.talking import Talk, talking
from tests.volume import IS_DEEP

OF_WORKERS = ("/api/orders/", "/api/nets/", "/api/workers")
DECLARED = {400, 401, 403, 404, 405, 409, 411, 413, 415, 422, 426, 428, 429}
_WILD = {"PUT /api/results/{checksum}", "POST /hooks/{hook_id}"}  # what they read is told by a checksum, a signature


async def writing(talk: Talk) -> list[tuple[str, str]]:
    """Method and path of every route with a body, its parameters filled in."""
    api = (await talk.client.get("/openapi.json")).json()
    execution_id = await talk.ran()
    found = []
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation and f"{method.upper()} {path}" not in _WILD:
                real = path.replace("{execution_id}", execution_id)
                found.append((method.upper(), re.sub(r"\{[^}]*\}", "some", real)))
    return found


@pytest.mark.req("SRV-02")
@pytest.mark.timeout(300)
async def test_every_route_refuses_invalid_json_and_survives_unusual_json() -> None:
    """A part of the corpus for each route, another for the next; all of it for the route that is asked most."""
    refused, odd = not_json(), odd_json()
    assert len(refused) + len(odd) > 300
    async with talking() as talk:
        worker = await talk.as_role(Role.WORKER)
        routes = await writing(talk)
        assert len(routes) > 15
        for number, (method, path) in enumerate(routes):
            client = worker if path.startswith(OF_WORKERS) else talk.client
            step = 1 if path == "/api/executions" else 7 if IS_DEEP else 21
            for body in refused[number % step :: step]:
                answer = await sent(client, method, path, body)
                assert answer.status_code in _expected(body, path), (method, path, body[:60], answer.text)
            for body in odd[number % step :: step]:
                answer = await sent(client, method, path, body)
                allowed = DECLARED | ({503} if path.startswith("/api/credentials/") else set())  # without a master key
                assert answer.status_code < 300 or answer.status_code in allowed, (
                    method,
                    path,
                    body[:60],
                    answer.text,
                )


def _expected(body: bytes, path: str) -> set[int]:
    """404 and 409 where what the path names is looked at first; an empty body stands for an empty object in places;
    what a worker sends is read as what it should be, so that it may be wrong before it is no JSON."""
    more = {200, 201, 202, 422} if not body else {422} if path.startswith(OF_WORKERS) else set()
    return {400, 404, 409} | more


async def sent(client: httpx2.AsyncClient, method: str, path: str, body: bytes) -> httpx2.Response:
    return await client.request(method, path, content=body, headers={"content-type": "application/json"})


async def test_every_route_refuses_other_content_types() -> None:
    async with talking() as talk:
        worker = await talk.as_role(Role.WORKER)
        for method, path in await writing(talk):
            client = worker if path.startswith(OF_WORKERS) else talk.client
            for kind in ("text/html", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""):
                answer = await client.request(method, path, content=b"{}", headers={"content-type": kind})
                assert answer.status_code in (415, 404, 409), (method, path, kind, answer.text)


async def test_every_route_refuses_an_oversized_body() -> None:
    async with talking(max_body_bytes=1_000) as talk:
        for method, path in await writing(talk):
            if path.startswith("/api/orders/turn"):
                continue  # a worker's results may be large
            client = await talk.as_role(Role.WORKER) if path.startswith(OF_WORKERS) else talk.client
            size = MAX_BATCH_BYTES if path == "/api/orders/output" else 2_000  # which has a limit of its own
            answer = await sent(client, method, path, b'{"a":"' + b"x" * size + b'"}')
            assert answer.status_code in (413, 404, 409), (method, path, answer.text)


@asynccontextmanager
async def on_postgres() -> AsyncIterator[Talk]:
    """The store that takes texts least lightly: it knows neither NUL nor half a character."""
    store = await PostgresStore.open(fresh_url())
    try:
        async with talking(store=store) as talk:
            yield talk
    finally:
        await store.close()


@pytest.mark.timeout(300)
async def test_texts_are_returned_unchanged_or_refused() -> None:
    """In values and keys of payloads, in names and correlations of messages, in reasons, labels, names and searches."""
    texts, outcomes = strings(), Counter[str]()
    assert len(texts) > 500
    async with on_postgres() as talk:
        await talk.register()
        payload = {"list": texts, "keys": {text: text for text in texts}, "who": texts[-1]}
        told = await talk.start(payload=payload, wait=60)
        detail = await talk.get(f"/api/executions/{told['execution_id']}")
        assert detail["payload"] == payload
        for number, text in enumerate(texts):
            if IS_DEEP or number % 3 == 0 or "\x00" in text:
                outcomes += await _in_a_message(talk, text)
            if number % 8 == 0 or "\x00" in text:
                outcomes += await _in_names(talk, text)
                outcomes += await _in_searches(talk, text)
    assert outcomes["kept"] > (400 if IS_DEEP else 150), outcomes
    assert outcomes["refused"] > 20, outcomes


async def _in_a_message(talk: Talk, text: str) -> Counter[str]:
    asked = {"name": text, "correlation": {"k": text}, "payload": text}
    answer = await talk.client.post("/api/messages", json=asked)
    if answer.status_code in DECLARED:
        return Counter(refused=1)
    assert answer.status_code == 202, (text, answer.text)
    [newest] = (await talk.get("/api/messages?limit=1"))["messages"]
    row = await talk.services.store.waits.message(answer.json()["message_id"])
    assert (newest["name"], newest["correlation"]) == (text, {"k": text})
    assert row is not None
    assert row.payload == text
    return Counter(kept=1)


async def _in_names(talk: Talk, text: str) -> Counter[str]:
    """Where names are bounded, refusing is the right thing; what is taken is given back."""
    found: Counter[str] = Counter()
    token = await talk.client.post("/api/tokens", json={"subject": text, "role": "viewer"})
    assert token.status_code == 201 or token.status_code in DECLARED, (text, token.text)
    if token.status_code == 201:
        assert text in [one["subject"] for one in (await talk.get("/api/tokens"))["tokens"]]
    started = await talk.client.post("/api/executions", json={"path": text})
    assert started.status_code in (404, 422), (text, started.text)
    execution = await talk.start(payload={})
    steered = await talk.client.post(f"/api/executions/{execution['execution_id']}/cancel", json={"reason": text})
    assert steered.status_code == 200 or steered.status_code in DECLARED, (text, steered.text)
    found["kept" if token.status_code == 201 else "refused"] += 1
    return found


async def _in_searches(talk: Talk, text: str) -> Counter[str]:
    for params in ({"text": text}, {"path": text}, {"label": f"a={text}"}, {"cursor": text}, {"since": text}):
        answer = await talk.client.get("/api/executions", params=params)
        assert answer.status_code == 200 or answer.status_code in DECLARED, (params, answer.text)
    return Counter()


async def test_all_mistakes_of_a_body_are_reported_at_once() -> None:
    async with talking() as talk:
        answer = await talk.client.post("/api/executions", json={"path": 1, "payload": [], "wait": "x", "strange": 1})
        told = answer.json()

    assert answer.status_code == 422
    assert [one["place"] for one in told["errors"]] == ["path", "payload", "wait", ""]
    assert "strange" in told["errors"][-1]["message"]
    assert told["detail"].startswith("path: ")


@pytest.mark.parametrize("path", ["/api/executions", "/api/health/live", "/metrics", "/openapi.json", "/api/stream"])
async def test_head_is_get_without_a_body(path: str) -> None:
    async with talking() as talk:
        head = await talk.client.head(path)
        stranger = await talk.with_token(None).head("/api/executions")

        assert head.status_code == 200
        assert head.content == b""
        assert stranger.status_code == 401
        assert (await talk.client.head("/api/executions/bulk")).status_code in (404, 405)
