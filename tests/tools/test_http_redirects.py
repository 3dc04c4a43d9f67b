"""Redirects: followed five times at most, each through the guard, and without credentials to strangers (O-12)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.servers.http import HttpServer, Reply, Request, reply
from tests.tools.http_requesting import failing, get

SECRETS = {"Authorization": "Bearer s", "Cookie": "sid=1", "X-Api-Key": "k", "X-Custom": "c", "Accept": "a/b"}


def to(url: str, status: int = 302) -> Reply:
    return reply(status, headers={"Location": url})


@pytest.mark.req("O-12")
async def test_a_redirect_is_followed_and_the_result_has_the_final_url() -> None:
    async with HttpServer({"/a": to("/b?x=1#part"), "/b": reply(json=1)}) as server:
        found = await get(f"{server.url}/a")

    assert (found.result["status"], found.result["data"]) == (200, 1)
    assert found.result["url"] == f"{server.url}/b?x=1"


@pytest.mark.req("O-12")
async def test_follow_redirects_false_returns_the_redirect() -> None:
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
async def test_method_and_body_of_a_redirect_follow_http(status: int, method: str, then: str) -> None:
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


async def test_credentials_are_sent_to_their_origin_only() -> None:
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


SECRET = "correct-horse+battery=staple"


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("body", [{"json": {"key": SECRET}}, {"form": {"key": SECRET}}, {"body": f"key: {SECRET}"}])
async def test_a_body_with_a_secret_is_sent_to_its_origin_only(status: int, body: dict[str, Any]) -> None:
    async with (
        HttpServer({"*": reply()}) as other,
        HttpServer({"/a": to(f"{other.url}/b", status), "/c": to("/d", status), "/d": reply()}) as server,
    ):
        error = await failing(f"{server.url}/a", method="POST", secrets=[SECRET], **body)
        await get(f"{server.url}/c", method="POST", secrets=[SECRET], **body)

    assert other.requests == []
    assert (error.kind, error.details["code"], error.retryable) == ("http.transport", "redirected_secret", False)
    assert f"another origin, {other.url}, and the body holds a secret" in error.message
    assert SECRET not in error.message
    assert server.requests[-1].body == server.requests[-2].body


async def test_a_body_without_a_secret_follows_to_another_origin() -> None:
    async with HttpServer({"*": reply()}) as other, HttpServer({"/a": to(f"{other.url}/b", 307)}) as server:
        await get(f"{server.url}/a", method="POST", json={"n": 1}, secrets=[SECRET])

    assert other.requests[0].body == b'{"n":1}'


@pytest.mark.req("KEY-06")
async def test_a_redirect_that_drops_a_body_with_a_secret_is_followed() -> None:
    async with HttpServer({"*": reply()}) as other, HttpServer({"/a": to(f"{other.url}/b", 303)}) as server:
        await get(f"{server.url}/a", method="POST", json={"key": SECRET}, secrets=[SECRET])

    assert (other.requests[0].method, other.requests[0].body) == ("GET", b"")


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize(
    ("inputs", "secrets"),
    [
        ({"params": {"key": SECRET}}, [SECRET]),
        ({"auth": {"type": "query", "name": "key", "value": SECRET}}, []),
    ],
)
async def test_a_redirect_with_the_query_passes_no_secret_on(inputs: dict[str, Any], secrets: list[str]) -> None:
    """As servers do that have moved: the path and the query of the request, at another host."""
    async with HttpServer({"*": reply()}) as other:

        def moved(request: Request) -> Reply:
            return to(f"{other.url}/a?{urlencode(request.query)}", 308)

        async with HttpServer({"/a": moved}) as server:
            error = await failing(f"{server.url}/a", secrets=secrets, **inputs)

    assert other.requests == []
    assert error.details["code"] == "redirected_secret"
    assert "the URL holds a secret" in error.message


@pytest.mark.req("KEY-06")
async def test_a_secret_in_a_custom_header_is_sent_to_its_origin_only() -> None:
    async with HttpServer({"*": reply()}) as other, HttpServer({"/a": to(f"{other.url}/b")}) as server:
        await get(f"{server.url}/a", headers={"User-Agent": f"a/{SECRET}", "Prefer": "wait=1"}, secrets=[SECRET])

    assert SECRET not in repr(other.requests[0].headers)
    assert other.requests[0].headers["prefer"] == "wait=1"


async def test_credentials_in_a_redirect_url_are_ignored() -> None:
    async with HttpServer({"/b": reply()}) as other:
        target = other.url.replace("http://", "http://eve:secret@") + "/b"
        async with HttpServer({"/a": to(target)}) as server:
            found = await get(f"{server.url}/a")

    assert "authorization" not in other.requests[0].headers
    assert found.result["url"] == f"{other.url}/b"


async def test_a_cookie_set_by_a_redirect_is_sent_with_the_following_requests() -> None:
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
async def test_a_redirect_to_a_blocked_address_is_refused(location: str, message: str) -> None:
    async with HttpServer({"/a": to(location)}) as server:
        error = await failing(f"{server.url}/a")

    assert error.kind == "http.transport"
    assert message in error.message


async def test_a_redirect_without_a_location_is_a_result() -> None:
    async with HttpServer({"/a": reply(302, text="nowhere")}) as server:
        found = await get(f"{server.url}/a")

    assert (found.result["status"], found.result["data"]) == (302, "nowhere")
