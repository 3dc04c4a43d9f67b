"""What an http task sends: bodies, queries, headers and credentials, in every spelling (TOOL-02, design.md §5)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.tools.http.calls import HttpRequest, idempotency_header, request_of_task
from noetl.tools.http.message import header_value
from noetl.tools.http.request_options import (
    AttachedCredential as Attached,
)
from noetl.tools.http.request_options import (
    InvalidRequest,
    attached_credential,
    fields_of,
    options_from_spec,
)
from tests.servers.http import HttpServer, reply
from tests.tools.http_requesting import context, failing, get, http_tool

URL = "http://h/x"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
TEXT = "text/plain; charset=utf-8"


def call(**inputs: Any) -> HttpRequest:
    return request_of_task({"url": URL, **inputs}, Attached(), "key")


@pytest.mark.req("TOOL-02")
@pytest.mark.parametrize(
    ("inputs", "content", "media_type"),
    [
        ({}, None, ""),
        ({"json": {"a": 1}}, b'{"a":1}', JSON),
        ({"json": "text"}, b'"text"', JSON),
        ({"json": [1, None]}, b"[1,null]", JSON),
        ({"body": {"a": "é"}}, '{"a":"é"}'.encode(), JSON),
        ({"body": "plain é"}, "plain é".encode(), TEXT),
        ({"body": '{"a": 1}'}, b'{"a": 1}', JSON),
        ({"body": "{not json"}, b"{not json", TEXT),
        ({"body": ""}, b"", TEXT),
        ({"body": 5}, b"5", JSON),
        ({"data": {"a": 1}}, b'{"a":1}', JSON),
        ({"data": "a,b"}, b"a,b", TEXT),
        ({"data": {"query": {"q": 1}, "body": {"a": 1}}}, b'{"a":1}', JSON),
        ({"data": {"query": {"q": 1}}}, None, ""),
        ({"data": {"body": "t"}}, b"t", TEXT),
        ({"data": {"query": "{ users { id } }"}}, b'{"query":"{ users { id } }"}', JSON),
        ({"data": {"query": {}, "body": {}, "more": 1}}, b'{"query":{},"body":{},"more":1}', JSON),
        ({"form": {"a": "1 2", "b": [1, 2], "c": None, "d": True}}, b"a=1%202&b=1&b=2&d=true", FORM),
        ({"body": {"a": 1}, "headers": {"content-type": FORM}}, b"a=1", FORM),
        ({"body": "<a/>", "headers": {"Content-Type": "application/xml"}}, b"<a/>", "application/xml"),
        ({"json": None, "body": None}, None, ""),
    ],
    ids=str,
)
def test_a_body_is_written_in_each_of_its_forms(inputs: dict[str, Any], content: bytes | None, media_type: str) -> None:
    found = call(method="POST", **inputs)

    assert found.content == content
    assert header_value(found.lines, "content-type") == media_type


def test_two_body_inputs_are_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match=r"it has several bodies \(json, form\): keep one of them"):
        call(json={}, form={})


@pytest.mark.req("TOOL-02")
@pytest.mark.parametrize(
    ("url", "inputs", "expected"),
    [
        (URL, {"params": {"a": 1, "b": "x y&z"}}, "http://h/x?a=1&b=x%20y%26z"),
        ("http://h/x?a=1", {"params": {"a": 2}}, "http://h/x?a=1&a=2"),
        (URL, {"params": {"a": [1, 2], "b": None, "c": False}}, "http://h/x?a=1&a=2&c=false"),
        (URL, {"params": {"f": {"k": [1]}}}, "http://h/x?f=%7B%22k%22%3A%5B1%5D%7D"),
        (URL, {"params": {}}, URL),
        (URL, {"params": {"q": 1}, "data": {"query": {"r": 2}}}, "http://h/x?q=1&r=2"),
        ("http://h/a b?x=ü#part", {}, "http://h/a%20b?x=%C3%BC"),
        ("HTTP://H.example:8080/", {}, "http://h.example:8080/"),
        ("http://bücher.example/", {}, "http://xn--bcher-kva.example/"),
    ],
)
def test_params_are_appended_to_the_query_of_the_url(url: str, inputs: dict[str, Any], expected: str) -> None:
    assert str(call(**{"url": url, **inputs}).url) == expected


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"url": None}, "it has no url"),
        ({"url": "  "}, "it has no url"),
        ({"url": "example.com/x"}, "its url does not begin with http:// or https://"),
        ({"url": "None/x"}, "its url does not begin with http:// or https://"),
        ({"url": "ftp://h/x"}, 'its url begins with "ftp:", and only'),
        ({"url": "file:///etc/passwd"}, 'its url begins with "file:"'),
        ({"url": "gopher://h:70/_x"}, 'its url begins with "gopher:"'),
        ({"url": "http:///x"}, "its url has no host"),
        ({"url": "http://h:99999/"}, "its url has an invalid port"),
        ({"url": "http://h/\r\nX: y"}, "its url is not one"),
        ({"method": "BREW"}, 'method "BREW" is not known: write GET, POST,'),
        ({"params": "a=1"}, "params must be a mapping"),
        ({"headers": ["a"]}, "headers must be a mapping"),
        ({"form": "a=1"}, "form must be a mapping"),
        ({"json": {"a": object()}}, "its body cannot be written as JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_request_is_reported(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        call(**inputs)

    assert message in str(caught.value)


def test_a_password_mistaken_for_a_port_is_not_shown() -> None:
    """It has a slash that nobody quoted, so the URL has another host, and a port, than its author thinks; a part of a
    secret is not known for one."""
    with pytest.raises(InvalidRequest, match="its url has an invalid port") as caught:
        call(url="http://ann:756682823302/5@h/x")

    assert "756682823302" not in str(caught.value)


async def test_an_unsendable_request_is_an_error_that_names_it() -> None:
    error = await failing("http://ann:secret@h/x", method="BREW")

    assert (error.kind, error.details["code"], error.retryable) == ("http.transport", "request", False)
    assert error.message.startswith('BREW http://h/x was not sent: method "BREW" is not known')


@pytest.mark.parametrize("name", ["X-A\r\nX-B", "X A", "", "X:A", "X\x00", "é"])
def test_a_header_name_with_an_invalid_character_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a header name"):
        call(headers={name: "1"})


@pytest.mark.parametrize("code", [*range(9), *range(10, 32), 127])
def test_a_control_character_in_a_header_value_is_refused_and_the_value_not_shown(code: int) -> None:
    """A line break in a value would write a header of its own (reliability.md §2.5)."""
    with pytest.raises(InvalidRequest) as caught:
        call(headers={"X-A": f"secret{chr(code)}X-Evil: 1"})

    assert str(caught.value) == 'header "X-A" has a line break or another control character in its value'


def test_header_values_are_written_as_text() -> None:
    written = {"A": 1, "B": True, "C": None, "D": ["x", "y"], "E": "é", "F": " trimmed ", "G": "日本"}
    lines = [line for line in call(headers=written).lines if len(line[0]) == 1]

    assert lines == [
        *((b"A", b"1"), (b"B", b"true"), (b"D", b"x"), (b"D", b"y"), (b"E", b"\xe9"), (b"F", b"trimmed")),
        (b"G", "日本".encode()),
    ]


def test_connection_headers_of_an_author_are_ignored() -> None:
    """A copied Content-Length would contradict the body: two readers would disagree where a request ends."""
    lines = call(headers={"Content-Length": "1", "transfer-encoding": "chunked", "Connection": "close"}).lines

    assert not {name.lower() for name, _ in lines} & {b"content-length", b"transfer-encoding", b"connection"}


@pytest.mark.req("TOOL-02")
async def test_headers_and_body_arrive_unchanged() -> None:
    async with HttpServer({"POST /a": reply()}) as server:
        await get(f"{server.url}/a", method="POST", headers={"X-Name": "é", "X-N": 5}, json={"a": [1]})

    request = server.requests[0]
    assert (request.headers["x-name"], request.headers["x-n"]) == ("é", "5")
    assert request.headers["user-agent"].startswith("noetl")
    assert (request.json, request.headers["content-type"]) == ({"a": [1]}, JSON)


@pytest.mark.req("TOOL-02", "TOOL-12")
@pytest.mark.parametrize(
    ("auth", "mode", "expected"),
    [
        ({}, None, Attached()),
        ({"type": "bearer", "token": "t"}, None, Attached({"Authorization": "Bearer t"})),
        ({"value": "t"}, None, Attached({"Authorization": "Bearer t"})),
        ({"type": "oauth2", "access_token": "t"}, None, Attached({"Authorization": "Bearer t"})),
        (
            {"type": "basic", "username": "u", "password": "p"},
            None,
            Attached({"Authorization": "Basic dTpw"}),
        ),
        ({"user": "u", "password": "p"}, None, Attached({"Authorization": "Basic dTpw"})),
        ({"type": "header", "name": "X-Key", "value": "k"}, None, Attached({"X-Key": "k"})),
        ({"type": "api_key", "key": "k"}, None, Attached({"X-API-Key": "k"})),
        ({"api_key": "k", "header": "X-K"}, None, Attached({"X-K": "k"})),
        ({"type": "api-key", "in": "query", "name": "k", "value": "v"}, None, Attached({}, {"k": "v"})),
        ({"headers": {"A": "1", "B": "2"}}, None, Attached({"A": "1", "B": "2"})),
        ({"value": "t", "param": "key"}, "query", Attached({}, {"key": "t"})),
        ({"type": "bearer", "value": "k"}, "header", Attached({"X-API-Key": "k"})),
        ({"kind": "static", "value": "t"}, None, Attached({"Authorization": "Bearer t"})),
    ],
    ids=str,
)
def test_a_credential_is_attached_according_to_its_mode(
    auth: dict[str, Any], mode: str | None, expected: Attached
) -> None:
    assert attached_credential(auth, mode) == expected


def test_a_credential_without_its_parts_is_refused() -> None:
    for auth, message in [
        ({"type": "basic", "password": "p"}, "no username"),
        ({"type": "bearer"}, "no secret: one of value, token, access_token, api_key, key is needed"),
    ]:
        with pytest.raises(InvalidRequest, match=message):
            attached_credential(auth)
    with pytest.raises(InvalidRequest, match=r'spec\.auth_mode "psychic" is not known'):
        attached_credential({"value": "v"}, "psychic")


@pytest.mark.req("KEY-05")
async def test_auth_names_a_stored_credential() -> None:
    known = {"api": {"type": "bearer", "data": {"token": "t-1"}}}
    async with HttpServer({"/a": reply()}) as server, http_tool() as tool:
        await tool.run({"url": f"{server.url}/a", "auth": "api"}, context(resolve=known.__getitem__))
        named = {"credential": "api", "type": "header", "name": "X-T"}
        await tool.run({"url": f"{server.url}/a", "auth": named}, context(resolve=known.__getitem__))

    assert server.requests[0].headers["authorization"] == "Bearer t-1"
    assert server.requests[1].headers["x-t"] == "t-1"


@pytest.mark.req("KEY-05")
def test_an_unknown_credential_is_unresolved() -> None:
    with pytest.raises(ToolError, match='the credential "api" is not known here') as caught:
        fields_of("api", None)

    assert caught.value.kind == "keychain.unresolved"


def test_an_authored_header_overrides_a_credential() -> None:
    found = request_of_task(
        {"url": URL, "headers": {"authorization": "mine"}}, attached_credential({"type": "bearer", "token": "t"}), "key"
    )

    assert header_value(found.lines, "authorization") == "mine"


async def test_a_credential_in_the_query_is_sent_and_not_shown() -> None:
    auth = {"type": "query", "name": "k", "value": "secret"}
    async with HttpServer({"/a": [reply(), reply(500)]}) as server:
        found = await get(f"{server.url}/a", params={"x": 1}, auth=auth)
        error = await failing(f"{server.url}/a", params={"x": 1}, auth=auth)

    assert server.requests[0].query == {"x": "1", "k": "secret"}
    assert found.result["url"] == f"{server.url}/a?x=1"
    assert "secret" not in error.message


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("exec/step#1/post/1", "exec/step#1/post/1"),
        ("exec/Käse laden#1/post/1", "exec/K%C3%A4se%20laden#1/post/1"),
        ("exec/a\r\nb/1", "exec/a%0D%0Ab/1"),
    ],
)
def test_an_idempotency_key_is_one_line_of_plain_text(key: str, line: str) -> None:
    """Step names may be any text (VAL-17)."""
    assert idempotency_header(key) == line


def test_a_long_idempotency_key_is_shortened_deterministically() -> None:
    assert idempotency_header("x" * 300) == idempotency_header("x" * 300) != idempotency_header("x" * 301)
    assert len(idempotency_header("x" * 300)) == 64


@pytest.mark.req("TOOL-04")
@pytest.mark.parametrize(
    ("written", "parts"),
    [
        (None, (10, 30, 30)),
        (5, (5, 5, 5)),
        ("2s", (2, 2, 2)),
        ({"connect": 1, "read": "500ms"}, (1, 0.5, 300)),
        ({"read": 2, "total": 4}, (10, 2, 4)),
    ],
)
def test_a_timeout_is_one_number_or_a_mapping(written: Any, parts: tuple[float, float, float]) -> None:
    timeout = options_from_spec({"timeout": written}).timeout

    assert (timeout.connect_s, timeout.read_s, timeout.total_s) == parts


def test_options_rendered_as_text_are_converted() -> None:
    options = options_from_spec(
        {"verify_ssl": "false", "follow_redirects": "no", "ok_statuses": ["404"], "max_bytes": "10"}
    )

    assert (options.verify_ssl, options.follow_redirects, options.ok_statuses, options.max_bytes) == (
        False,
        False,
        frozenset({404}),
        10,
    )
    with pytest.raises(InvalidRequest, match="its spec cannot be read"):
        options_from_spec({"ok_statuses": ["many"]})
