"""Tests that wait for a page name a function. Playwright evaluates a bare expression with `eval` on every frame, and
the page's Content Security Policy refuses all but the first: such a test passes only where the page is fast enough."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def bare_conditions(text: str) -> Iterator[int]:
    """The lines where `wait_for_function` gets text that is no function."""
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "wait_for_function"
        ):
            condition = node.args[0]
            first = condition.values[0] if isinstance(condition, ast.JoinedStr) else condition
            if isinstance(first, ast.Constant) and not str(first.value).startswith("("):
                yield node.lineno


def test_every_wait_for_a_page_names_a_function() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("tests/browser", "bench")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in bare_conditions(path.read_text("utf-8"))
    ]

    assert found == []


@pytest.mark.parametrize(
    "text", ['page.wait_for_function("scrollY > 100")', 'page.wait_for_function(f"scrollY > {least}", timeout=1)']
)
def test_a_bare_condition_is_found(text: str) -> None:
    assert list(bare_conditions(text)) == [1]
