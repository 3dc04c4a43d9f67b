"""The forms a secret takes on its way through programs: encoded for URLs, JSON, HTML, headers and dumps.

A value is masked in all of them (RELIABILITY 2.6). What a program does to a secret beyond these (reversing it, hashing
it, cutting it) is not known here.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from html import escape
from urllib.parse import quote, quote_plus

import msgspec

SHORTEST = 6  # characters; a shorter value would mask innocent text everywhere, so it is warned about instead

_NESTED = 3  # JSON text inside JSON text, so deep; a secret without quotes and backslashes stays the same in it

_ESCAPES = msgspec.json.Encoder()
_TO_URL_ALPHABET = bytes.maketrans(b"+/", b"-_")


def forms_of(secret: str) -> set[str]:
    """Every form of `secret` that is masked, itself included; none is shorter than SHORTEST."""
    body = secret.encode("utf-8", "surrogatepass")
    forms = {secret, body.hex(), body.hex().upper(), *_base64_forms(body)}
    forms |= {form(secret) for form in _TEXT_FORMS}
    for _ in range(_NESTED):
        forms |= {escaped(form) for form in forms for escaped in (json_escaped, _ascii_json)}
    return {form for form in forms if len(form) >= SHORTEST}


def json_escaped(text: str) -> str:
    """The text as it stands inside a JSON string. It is made character by character, so the escaped form of a part
    is a part of the escaped form."""
    return _ESCAPES.encode(text)[1:-1].decode()


def _ascii_json(text: str) -> str:
    """The same with \\uXXXX, as many libraries write it."""
    return json.dumps(text)[1:-1]


def _lower_percents(text: str) -> str:
    pieces = quote(text, safe="").split("%")
    return pieces[0] + "".join("%" + piece[:2].lower() + piece[2:] for piece in pieces[1:])


_TEXT_FORMS: tuple[Callable[[str], str], ...] = (
    lambda text: quote(text, safe=""),
    lambda text: quote(text),
    quote_plus,
    _lower_percents,
    lambda text: _ascii_json(text).replace("/", "\\/"),
    lambda text: repr(text)[1:-1],
    lambda text: escape(text, quote=True),
)


def _base64_forms(body: bytes) -> Iterator[str]:
    """The characters of base64 that depend on nothing but `body`, wherever it begins within a group of three."""
    for before in range(3):
        code = b64encode(b"\0" * before + body)
        first = -(-8 * before // 6)
        last = 8 * (before + len(body)) // 6
        sure = code[first:last]
        yield sure.decode()
        yield sure.translate(_TO_URL_ALPHABET).decode()
