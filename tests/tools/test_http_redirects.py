"""Redirects: followed five times at most, each through the guard, and without credentials to strangers (O-12)."""

from __future__ import annotations

import pytest

from tests.servers.http import HttpServer, Reply, Request, reply
from tests.tools.http_requesting import failing, get

SECRETS = {"Authorization": "Bearer s", "Cookie": "sid=1", "X-Api-Key": "k", "X-Custom": "c", "Accept": "a/b"}


def to(url: str, status: int = 302) -> Reply:
    return reply(status, headers={"Location": url})


@pytest.mark.req("O-12")
async def test_a_redirect_is_followed_and_the_result_tells_where_it_ended() -> None:
    async with HttpServer({"/a": to("/b?x=1#part"), "/b": reply(json=1)}) as server:
        found = await get(f"{server.url}/a")

    assert (found.result["status"], found.result["data"]) == (200, 1)
    assert found.result["url"] == f"{server.url}/b?x=1"


@pytest.mark.req("O-12")
async def test_follow_redirects_false_gives_the_redirect_itself() -> None:
    async with HttpServer({"/a": to("/b")}) as server:
        found = await get(f"{server.url}/a", spec={"follow_redirects": False})

    assert (found.result["status"], found.result["headers"]["location"]) == (302, "/b")


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
        (302, "PUT", "PUT"),
    ],
)
async def test_the_method_and_body_follow_as_http_says(status: int, method: str, then: str) -> None:
    async with HttpServer({"/a": to("/b", status), "/b": reply()}) as server:
        await get(f"{server.url}/a", method=method, json={"n": 1})

    second = server.requests[1]
    assert second.method == then
    assert (second.body == b'{"n":1}') is (then == method)
    assert ("content-type" in second.headers) is (then == method)


async def test_six_redirects_are_too_many_and_five_are_not() -> None:
    def next_one(request: Request) -> Reply:
        n = int(request.query["n"])
        return to(f"/a?n={n - 1}") if n else reply(json="end")

    async with HttpServer({"/a": next_one}) as server:
        found = await get(f"{server.url}/a?n=5")
        error = await failing(f"{server.url}/a?n=6")

    assert found.result["data"] == "end"
    assert (error.kind, error.details["code"]) == ("http.transport", "redirects")
    assert "was redirected more than 5 times" in error.message


async def test_credentials_stay_with_their_origin() -> None:
    async with (
        HttpServer({"*": reply()}) as other,
        HttpServer({"/a": to(f"{other.url}/b"), "/c": to("/d"), "/d": reply()}) as server,
    ):
        await get(f"{server.url}/a", headers=SECRETS, auth={"type": "header", "name": "X-T", "value": "t"})
        await get(f"{server.url}/c", headers=SECRETS, auth={"type": "query", "name": "k", "value": "t"})

    stranger, own = other.requests[0], server.requests[-1]
    assert not stranger.headers.keys() & {"authorization", "cookie", "x-api-key", "x-custom", "x-t"}
    assert stranger.headers["accept"] == "a/b"
    assert own.headers.items() >= {(name.lower(), value) for name, value in SECRETS.items()}
    assert own.query == {}


async def test_a_redirect_does_not_bring_credentials_of_its_own() -> None:
    async with HttpServer({"/b": reply()}) as other:
        target = other.url.replace("http://", "http://eve:secret@") + "/b"
        async with HttpServer({"/a": to(target)}) as server:
            found = await get(f"{server.url}/a")

    assert "authorization" not in other.requests[0].headers
    assert found.result["url"] == f"{other.url}/b"


async def test_a_cookie_set_on_the_way_is_kept_for_the_rest_of_the_way() -> None:
    """Sign-in pages send one round trip with a cookie, and expect it back."""
    first = reply(302, headers={"Location": "/b", "Set-Cookie": "sid=7; Path=/"})
    async with HttpServer({"/a": first, "/b": reply()}) as server:
        await get(f"{server.url}/a")

    assert server.requests[1].headers["cookie"] == "sid=7"


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("ftp://h/x", 'its url begins with "ftp:"'),
        ("file:///etc/passwd", 'its url begins with "file:"'),
        ("http://[::1", "which is not a URL"),
        ("http://169.254.169.254/latest", "is blocked: 169.254.169.254 is a metadata address"),
        ("//[::ffff:169.254.169.254]/", "is a metadata address"),
        ("http://2852039166/", "it is at 169.254.169.254, a metadata address"),
    ],
)
async def test_a_redirect_may_not_lead_where_a_request_may_not_go(location: str, message: str) -> None:
    async with HttpServer({"/a": to(location)}) as server:
        error = await failing(f"{server.url}/a")

    assert error.kind == "http.transport"
    assert message in error.message


async def test_a_redirect_without_a_location_is_a_result() -> None:
    async with HttpServer({"/a": reply(302, text="nowhere")}) as server:
        found = await get(f"{server.url}/a")

    assert (found.result["status"], found.result["data"]) == (302, "nowhere")
