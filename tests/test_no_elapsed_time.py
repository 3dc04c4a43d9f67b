"""No test asserts how long something took (docs/decisions/0009): a busy machine takes longer, and nothing is wrong."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
_CLOCKS = frozenset({"monotonic", "perf_counter", "process_time", "thread_time", "time"})


def asserted_times(text: str) -> Iterator[int]:
    """The lines where an assertion has the difference of two clock readings, itself or by a name it was given."""
    tree = ast.parse(text)
    taken = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_difference(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
            sides = [node.test.left, *node.test.comparators]
            if any(_is_difference(one) or (isinstance(one, ast.Name) and one.id in taken) for one in sides):
                yield node.lineno


def _is_difference(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _is_reading(node.left)


def _is_reading(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in _CLOCKS


def test_no_test_asserts_elapsed_time() -> None:
    found = [
        f"{path.relative_to(HERE)}:{line}"
        for path in sorted(HERE.rglob("*.py"))
        for line in asserted_times(path.read_text())
    ]

    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "assert time.monotonic() - began < 3",
        "took_s = time.process_time() - began\nassert took_s < 0.3",
        "assert 0.5 > perf_counter() - began",
    ],
)
def test_an_assertion_about_elapsed_time_is_found(text: str) -> None:
    assert list(asserted_times(text)) == [text.count("\n") + 1]


@pytest.mark.parametrize("text", ["assert time.monotonic() < until", "left_s = until - time.time()\nassert found"])
def test_a_polling_timeout_is_not_an_assertion_about_elapsed_time(text: str) -> None:
    assert list(asserted_times(text)) == []
