"""Reducers: each operation, on top of what was there (LOOP-14, V2E-07)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.engine.loops.reducers import fold, fold_all, shared_write, with_shared
from noetl.language.grammar.policies import REDUCERS


@pytest.mark.req("LOOP-14")
@pytest.mark.parametrize(
    ("op", "previous", "values", "gives"),
    [
        ("sum", None, [1, 2, 3], 6),
        ("sum", 10, [1, 2.5], 13.5),
        ("count", None, ["a", None, 3], 3),
        ("count", 2, ["a"], 3),
        ("min", None, [3, 1, 2], 1),
        ("min", 0, [3, 1], 0),
        ("max", None, ["a", "c", "b"], "c"),
        ("max", None, [None], None),
        ("append", [0], [1, [2]], [0, 1, [2]]),
        ("extend", None, [[1], [], [2, 3]], [1, 2, 3]),
        ("union", [1], [[2, 1], 3, {"a": 1}, {"a": 1}], [1, 2, 3, {"a": 1}]),
        ("union", None, [1, True, 1.0], [1, True, 1.0]),
        ("merge", {"a": 1}, [{"b": 2}, {"a": 3}], {"a": 3, "b": 2}),
        ("first", None, [1, 2], 1),
        ("first", 0, [1, 2], 0),
        ("last", 0, [1, 2], 2),
        ("any", None, [False, 1], True),
        ("any", None, [0, ""], False),
        ("all", None, [True, 1], True),
        ("all", False, [True], False),
    ],
)
def test_each_reducer_folds_on_top_of_the_previous_value(op: str, previous: Any, values: list[Any], gives: Any) -> None:
    assert fold(op, previous, values) == gives


@pytest.mark.parametrize(
    ("op", "values"), [("sum", ["a"]), ("sum", [True]), ("extend", [1]), ("merge", [[]]), ("min", [1, "a"])]
)
def test_values_of_the_wrong_type_are_reported(op: str, values: list[Any]) -> None:
    with pytest.raises(ToolError, match=f"{op} cannot fold") as raised:
        fold(op, None, values)

    assert raised.value.kind == "loop.reduce"


@pytest.mark.parametrize("op", REDUCERS)
def test_every_reducer_of_the_language_folds_an_empty_loop(op: str) -> None:
    nothing = fold(op, None, [])

    assert fold(op, nothing, []) == nothing


def test_a_dotted_key_is_folded_in_place() -> None:
    assert fold_all({"stats": {"n": 1}}, {"stats.n": "sum"}, {"stats.n": [2, 3]}) == {"stats.n": 6}


@pytest.mark.req("V2E-07")
def test_each_shared_value_is_folded_with_its_own_reducer() -> None:
    shared = {"n": [("sum", 1), ("sum", 2)], "k": [shared_write("x"), shared_write({"op": "append", "value": 3})]}

    assert with_shared({"n": 10}, {"n": shared["n"]}) == {"n": 13}
    assert shared_write("x") == ("last", "x")
    assert shared_write({"a": 1}) == ("last", {"a": 1})
    assert with_shared({}, {"k": [("last", 1), ("last", 2)]}) == {"k": 2}
