"""The scripted server itself: other tests rely on it, also from a thread."""

from __future__ import annotations

import urllib.request

from tests.servers.http import HttpServer, Routes, reply


def _got(url: str, body: bytes | None = None) -> tuple[int, bytes]:
    with urllib.request.urlopen(url, data=body, timeout=60) as answer:
        return answer.status, answer.read()


def test_the_test_server_answers_in_turn_and_records_every_request() -> None:
    routes: Routes = {"/a": [reply(text="one"), reply(text="two")], "POST /a": reply(201, json={"made": True})}
    with HttpServer(routes) as server:
        texts = [_got(f"{server.url}/a?n={n}")[1] for n in range(3)]
        status, _ = _got(f"{server.url}/a", b"body")

    assert texts == [b"one", b"two", b"two"]
    assert status == 201
    assert [(request.method, request.query) for request in server.seen("/a")][:2] == [
        ("GET", {"n": "0"}),
        ("GET", {"n": "1"}),
    ]
    assert server.requests[-1].body == b"body"


def test_a_route_can_be_a_function_of_the_request() -> None:
    with HttpServer({"*": lambda request: reply(text=request.path)}) as server:
        _, text = _got(f"{server.url}/any/thing")

    assert text == b"/any/thing"
