"""Bodies of responses as data: JSON, text or base64, and never more of it than is safe (TOOL-02)."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.tools.http import message
from noetl.tools.http.message import Content, content_of
from tests.servers.http import HttpServer, reply
from tests.tools.http_requesting import get

JSON = "application/json"


def data_of(body: bytes, content_type: str) -> Any:
    return content_of(body, content_type, "GET http://h/x").data


@pytest.mark.req("TOOL-02")
@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        (b'{"n": 1}', JSON, {"n": 1}),
        (b'{"n": 1}', "application/problem+json; charset=utf-8", {"n": 1}),
        (b"5", JSON, 5),
        (b"null", JSON, None),
        (b'"text"', JSON, "text"),
        (b"123456789012345678901234567890", JSON, 123456789012345678901234567890),
        (b'\xef\xbb\xbf{"n": 1}', JSON, {"n": 1}),
        ('{"n": "é"}'.encode("utf-16"), "application/json; charset=utf-16", {"n": "é"}),
        ('{"n": "é"}'.encode("latin-1"), "application/json; charset=ISO-8859-1", {"n": "é"}),
        (b' [1, 2]\n', "text/plain", [1, 2]),
        (b'{"n": 1}', "", {"n": 1}),
        (b'{"n": 1}', "text/html", {"n": 1}),
        (b'{"n": 1}', "application/octet-stream", {"n": 1}),
        (b"5", "text/plain", "5"),
        (b"[not json", "text/plain", "[not json"),
        (b"oops", JSON, "oops"),
        (b'{"a": NaN}', JSON, '{"a": NaN}'),
        (b'{"a": 1}\n{"a": 2}\n', "application/x-ndjson", '{"a": 1}\n{"a": 2}\n'),
        ("naïve".encode(), "text/plain", "naïve"),
        ("naïve".encode("latin-1"), "text/plain", "naïve"),
        ("naïve".encode("cp1252"), "text/csv; charset=windows-1252", "naïve"),
        (b"abc", "text/plain; charset=no-such-thing", "abc"),
        (b"caf-dma", "text/plain; charset=punycode", "caf-dma"),  # their time grows with the square of the body
        (b"xn--caf-dma", "text/plain; charset=IDNA", "xn--caf-dma"),
        (b"<a/>", "image/svg+xml", "<a/>"),
        (b"", JSON, None),
        (b"", "text/plain", None),
    ],
    ids=repr,
)  # fmt: skip
def test_a_body_is_decoded_by_its_type_or_content(body: bytes, content_type: str, data: Any) -> None:
    assert content_of(body, content_type, "GET http://h/x") == Content(data)


@pytest.mark.parametrize(
    ("body", "content_type", "media_type"),
    [
        (b"\x89PNG\x00", "image/png", "image/png"),
        (b"looks like text", "application/pdf", "application/pdf"),
        (b"[1]", "application/zip", "application/zip"),
        (b"\xff\xfe\x00", "", "application/octet-stream"),
        (b"a\x00b", "text/plain", "text/plain"),
        (b"\xc3(", "application/octet-stream", "application/octet-stream"),
    ],
    ids=repr,
)
def test_binary_content_is_base64_with_its_media_type(body: bytes, content_type: str, media_type: str) -> None:
    found = content_of(body, content_type, "GET http://h/x")

    assert b64decode(found.data) == body
    assert found.media_type == media_type


async def test_a_binary_result_is_marked() -> None:
    async with HttpServer({"/a": reply(body=b"\x00\x01", headers={"Content-Type": "image/png"})}) as server:
        result = (await get(f"{server.url}/a")).result

    assert (result["data"], result["media_type"], result["encoding"]) == ("AAE=", "image/png", "base64")


@pytest.mark.parametrize("depth", [101, 500, 100_000])
def test_json_nested_too_deep_is_refused(depth: int) -> None:
    """It could be parsed, but nothing after it could handle it: templates go 100 levels deep."""
    with pytest.raises(ToolError, match="GET http://h/x gave JSON with more than 100 levels") as caught:
        data_of(b"[" * depth + b"]" * depth, JSON)

    assert caught.value.kind == "result.too_large"


def test_json_of_a_hundred_levels_is_read() -> None:
    data = data_of(b"[" * 100 + b"]" * 100, JSON)

    assert data is not None


def test_json_of_too_many_values_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text of a few bytes a value makes objects of sixty."""
    monkeypatch.setattr(message, "MAX_VALUES", 1_000)

    with pytest.raises(ToolError, match="more than 1,000 values"):
        data_of(b"[" + b"[]," * 1_000 + b"[]]", JSON)
