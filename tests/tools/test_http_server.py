"""The scripted server itself: other tests rely on it, also from a thread."""

from __future__ import annotations

import urllib.request

from tests.servers.http import HttpServer, reply


def test_it_serves_from_a_thread_in_turn_and_keeps_every_request() -> None:
    routes = {"/a": [reply(text="one"), reply(text="two")], "POST /a": reply(201, json={"made": True})}
    with HttpServer(routes) as server:
        texts = [urllib.request.urlopen(f"{server.url}/a?n={n}", timeout=5).read() for n in range(3)]
        made = urllib.request.urlopen(f"{server.url}/a", data=b"body", timeout=5)

    assert texts == [b"one", b"two", b"two"]
    assert made.status == 201
    assert [(request.method, request.query) for request in server.seen("/a")][:2] == [
        ("GET", {"n": "0"}),
        ("GET", {"n": "1"}),
    ]
    assert server.requests[-1].body == b"body"


def test_a_route_may_be_a_function_of_the_request() -> None:
    with HttpServer({"*": lambda request: reply(text=request.path)}) as server:
        text = urllib.request.urlopen(f"{server.url}/any/thing", timeout=5).read()

    assert text == b"/any/thing"
