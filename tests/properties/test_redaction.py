"""Redaction holds for any secret, any encoding and any cutting into chunks (KEY-06)."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.base.redaction import MASK, Redactor
from noetl.base.secret_forms import SHORTEST, forms_of

# a star could join with a mask into the secret itself, and a lone surrogate cannot be written anywhere
_CHARACTERS = st.characters(codec="utf-8", exclude_characters="*")
SECRETS = st.text(_CHARACTERS, min_size=SHORTEST, max_size=40)
AROUND = st.text(_CHARACTERS, max_size=30)

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "url": lambda text: quote(text, safe=""),
    "path": quote,
    "form": quote_plus,
    "query": lambda text: urlencode({"q": text}),
    "json": json.dumps,
    "json utf-8": lambda text: json.dumps(text, ensure_ascii=False),
    "json twice": lambda text: msgspec.json.encode({"body": text}).decode(),
    "repr": repr,
    "html": escape,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
}


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize("encoding", ENCODINGS)
@settings(deadline=None)
@given(secret=SECRETS, before=AROUND, after=AROUND)
def test_no_form_of_a_secret_remains_in_a_text(encoding: str, secret: str, before: str, after: str) -> None:
    masked = Redactor([secret]).text(before + ENCODINGS[encoding](secret) + after)

    assert MASK in masked
    assert not [form for form in forms_of(secret) if form in masked]


@pytest.mark.req("KEY-06")
@settings(deadline=None)
@given(secret=SECRETS, before=st.binary(max_size=12), after=st.binary(max_size=12), url=st.booleans())
def test_base64_of_a_secret_among_other_bytes_is_masked(secret: str, before: bytes, after: bytes, url: bool) -> None:
    """Whatever stands before it shifts the alphabet by 0, 2 or 4 bits; at most one character at each end, which the
    neighbours share, may stay."""
    encode = urlsafe_b64encode if url else b64encode
    code = encode(before + secret.encode() + after).decode()

    masked = Redactor([secret]).text(code)

    assert MASK in masked
    kept = masked.replace(MASK, "")
    longest = max(4, 4 * (len(before) + 2) // 3 + 4 * (len(after) + 2) // 3 + 8)
    assert len(kept) <= longest


_DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | AROUND,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(AROUND, below, max_size=4),
    max_leaves=12,
)


@pytest.mark.req("KEY-06")
@settings(deadline=None)
@given(data=_DATA, secret=SECRETS, inside=st.booleans())
def test_no_secret_remains_in_plain_data(data: Any, secret: str, inside: bool) -> None:
    whole = {"data": data, secret: [f"it is {secret}!"]} if inside else data
    copy = msgspec.json.decode(msgspec.json.encode(whole))

    masked = Redactor([secret]).data(whole)

    assert whole == copy, "it works on copies"
    if inside:
        assert not [form for form in forms_of(secret) if form in json.dumps(masked, ensure_ascii=False)]


@settings(deadline=None)
@given(data=_DATA)
def test_data_without_secrets_is_returned_as_the_same_object(data: Any) -> None:
    assert Redactor(["never in there, as it is long"]).data(data) is data
    assert Redactor([]).data(data) is data


@pytest.mark.req("KEY-06")
@settings(deadline=None)
@given(
    secrets=st.lists(st.text("ab", min_size=SHORTEST, max_size=10), min_size=1, max_size=4),
    text=st.text("abc", max_size=80),
    cuts=st.lists(st.integers(1, 12), max_size=30),
)
def test_masking_chunks_equals_masking_the_whole_text(secrets: list[str], text: str, cuts: list[int]) -> None:
    """Over a small alphabet secrets begin inside each other all the time."""
    redactor = Redactor(secrets)
    stream, at, shown = redactor.stream(), 0, ""

    for cut in cuts:
        shown += stream.feed(text[at : at + cut])
        at += cut
    shown += stream.feed(text[at:]) + stream.end()

    assert shown == redactor.text(text)
    assert not [secret for secret in secrets if secret in shown]


def test_overlapping_secrets_become_one_mask() -> None:
    assert Redactor(["abcdef", "defghi"]).text("xabcdefghiy") == f"x{MASK}y"


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize("end", ["", "…", "... is too long", " … (cut, 9000 characters)"])
@settings(deadline=None)
@given(secret=st.text(_CHARACTERS, min_size=40, max_size=80), kept=st.integers(12, 39))
def test_the_truncated_beginning_of_a_secret_is_masked(end: str, secret: str, kept: int) -> None:
    """A database shows the first 64 characters of a value, an error the first 400 of a line."""
    text = "value: " + secret[:kept] + end

    assert secret[:kept] not in Redactor([secret]).text(text)
    assert secret[:kept] not in Redactor([secret]).data({"deep": [text]})["deep"][0]


def test_a_few_trailing_characters_are_not_a_truncated_secret() -> None:
    text = "the driver is postgres"
    assert Redactor(["postgresql://app:correct-horse@db/shop"]).text(text) == text


def test_whitespace_around_a_secret_does_not_hide_it() -> None:
    assert Redactor(["correct horse\n"]).text('header "correct horse" was refused') == f'header "{MASK}" was refused'


def test_a_secret_number_is_masked() -> None:
    assert Redactor(["493771"]).data({"pin": 493771, "ok": True}) == {"pin": MASK, "ok": True}


def test_a_value_too_short_to_be_masked_is_unchanged() -> None:
    """Masking "ab" would make every text unreadable; whoever stores such a value is warned."""
    assert Redactor(["ab"]).idle
    assert Redactor(["ab"]).text("cab") == "cab"
