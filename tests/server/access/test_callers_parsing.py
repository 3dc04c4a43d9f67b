"""Any text in place of a token is read without an internal error, and identifies nobody (reliability.md, F12)."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.base.clock import ManualClock
from noetl.operations.tokens import AccessTokens
from noetl.server.access.callers import ANONYMOUS_LOOKUP, Callers, Sessions, is_own_origin, may_change
from noetl.server.access.hosts import Hosts, host_name
from noetl.server.access.webhook_deliveries import Signed, is_signed, parse_signature, signature_of
from noetl.store.memory import MemoryStore

NOW = 1_735_689_600.0
words = st.text() | st.sampled_from(["v1=", "v1=" + "0" * 64, str(int(NOW)), "noetl_first_" + "A" * 43, "localhost:1"])
names = st.sampled_from([b"authorization", b"cookie", b"origin", b"host", b"noetl-csrf", b"x"])
values = st.binary(max_size=200) | st.sampled_from([b"Bearer x", b"noetl_session=x", b"http://localhost", b"localhost"])


@settings(deadline=None)
@given(words, words, st.binary())
def test_no_claim_is_valid_without_the_key(timestamp: str, signature: str, body: bytes) -> None:
    signed = parse_signature(timestamp, signature, now=NOW)

    assert signed is None or not is_signed(signed, "the key", body)


@settings(deadline=None)
@given(st.text(min_size=1), st.integers(int(NOW) - 300, int(NOW) + 300), st.binary(), st.binary(min_size=1))
def test_a_valid_claim_is_valid_for_its_body_only(key: str, timestamp: int, body: bytes, more: bytes) -> None:
    key = key.encode("utf-8", "replace").decode()
    mark = signature_of(key, str(timestamp), body)
    signed = parse_signature(str(timestamp), f"v1={mark}", now=NOW)

    assert signed == Signed(str(timestamp), mark)
    assert is_signed(signed, key, body)
    assert not is_signed(signed, key, body + more)
    assert not is_signed(signed, key + "x", body)


@settings(deadline=None)
@given(words)
def test_only_configured_host_names_are_accepted(text: str) -> None:
    assert Hosts().know(text) == (host_name(text) in ("localhost", "127.0.0.1", "::1"))


@settings(deadline=None)
@given(st.lists(st.tuples(names, values), max_size=6))
def test_no_combination_of_headers_authenticates(headers: list[tuple[bytes, bytes]]) -> None:
    store, clock = MemoryStore(), ManualClock(NOW)
    tokens = AccessTokens(store.key_values, clock)
    caller = asyncio.run(Callers(tokens, Sessions(store.key_values, tokens, clock), tls=False).find_caller(headers))

    assert caller is None or caller is ANONYMOUS_LOOKUP
    is_own_origin(headers, "http")
    assert may_change(ANONYMOUS_LOOKUP, headers, "http")
