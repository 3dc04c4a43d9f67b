"""Where a server may listen, and how access code compares secrets (reliability.md §2.3, 3.9, F22)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import noetl.server.access
from noetl.base.clock import ManualClock
from noetl.base.errors import RefusedError
from noetl.server.access.access import Buckets, RequestRate
from noetl.server.access.hosts import check_bind

ROOM = Path(noetl.server.access.__file__).parent


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "LOCALHOST", "::1", "[::1]"])
def test_binding_to_loopback_is_always_allowed(host: str) -> None:
    check_bind(host, tls=False, proxy_flag=False, has_tokens=False)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.1", "noetl.example", "", "localhost.example", "127.0.0.1.x"]
)
def test_binding_elsewhere_needs_tokens_and_tls_or_a_proxy(host: str) -> None:
    for tls, proxy_flag, has_tokens in ((True, True, False), (False, False, True), (False, False, False)):
        with pytest.raises(RefusedError) as refused:
            check_bind(host, tls=tls, proxy_flag=proxy_flag, has_tokens=has_tokens)
        assert "or listen on 127.0.0.1" in str(refused.value)

    check_bind(host, tls=True, proxy_flag=False, has_tokens=True)
    check_bind(host, tls=False, proxy_flag=True, has_tokens=True)


def test_the_refusal_names_the_fix() -> None:
    with pytest.raises(RefusedError, match="noetl token create"):
        check_bind("0.0.0.0", tls=True, proxy_flag=False, has_tokens=False)
    with pytest.raises(RefusedError, match=r"--tls-cert .* --behind-proxy"):
        check_bind("0.0.0.0", tls=False, proxy_flag=False, has_tokens=True)


def test_a_token_bucket_refills_and_forgets_silent_callers() -> None:
    clock = ManualClock()
    buckets = Buckets(RequestRate(2, 0.5), clock)

    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 2.0]
    assert buckets.take("b") == 0.0
    clock.advance(1.0)
    assert buckets.take("a") == 1.0
    clock.advance(1.0)
    assert buckets.take("a") == 0.0
    clock.advance(-100.0)  # a clock that is set back takes nothing away
    assert buckets.take("b") == 0.0
    for number in range(20_000):
        buckets.take(str(number))
    assert len(buckets._levels) == 10_000


SECRET_WORDS = ("secret", "token", "signature", "csrf", "session_id", "key", "digest", "password")
HARMLESS = ("key_id", "token_id", "newest_id")  # public names


def compared(tree: ast.AST) -> list[str]:
    """What `==` or `!=` is asked of, as written."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            sides = (node.left, *node.comparators)
            found += [ast.unparse(side) for side in sides if isinstance(side, ast.Name | ast.Attribute | ast.Subscript)]
    return found


def is_secret(written: str) -> bool:
    name = written.rpartition(".")[2]
    is_constant = name.isupper()  # the name of a header, say
    return not is_constant and any(word in name for word in SECRET_WORDS) and not name.endswith(HARMLESS)


@pytest.mark.parametrize(
    "path", sorted([*ROOM.rglob("*.py"), *(ROOM.parent / "routes").glob("*.py")]), ids=lambda path: path.name
)
def test_no_secret_is_compared_with_equality_operators(path: Path) -> None:
    """`==` ends at the first difference, and how long it takes tells where that is."""
    assert [one for one in compared(ast.parse(path.read_text())) if is_secret(one)] == []


def test_the_lint_detects_such_comparisons() -> None:
    assert [
        one for one in compared(ast.parse("a.secret_hash == x or csrf != y or token_id == z")) if is_secret(one)
    ] == [
        "a.secret_hash",
        "csrf",
    ]
