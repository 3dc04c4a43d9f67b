"""Collecting: responses put together by strategy, and as part of the result (V2C-17, O-28)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.pipeline.scopes import no_stored_results
from noetl.engine.v2_case.names import collected, with_collected
from noetl.events.outcomes import Error, Reference, Status, TaskResult
from noetl.net.task import Collect


def page(value: Any) -> TaskResult:
    return TaskResult(result=value)


@pytest.mark.req("V2C-17")
@pytest.mark.parametrize(
    ("strategy", "pages", "gives"),
    [
        ("append", [[1, 2], [3]], [1, 2, 3]),
        ("append", [1, [2, 3]], [1, 2, 3]),
        ("push", [[1, 2], [3]], [[1, 2], [3]]),
        ("replace", [[1], [2]], [2]),
        ("replace", [], None),
        ("merge", [{"a": 1, "b": 1}, {"b": 2}], {"a": 1, "b": 2}),
        ("merge", [{"a": 1}, 5], {"a": 1}),
        ("append", [], []),
    ],
)
def test_the_merge_strategy_combines_values(strategy: str, pages: list[Any], gives: Any) -> None:
    collect = Collect(path="data.v", into="all", strategy=strategy)

    assert collected(collect, [page({"data": {"v": one}}) for one in pages], no_stored_results) == gives


@pytest.mark.req("V2C-17")
def test_a_response_without_the_merged_value_adds_nothing() -> None:
    collect = Collect(path="data.v", into="all")

    assert collected(collect, [page({"data": {}}), page(None), page({"data": {"v": None}})], no_stored_results) == [
        None
    ]


@pytest.mark.req("V2C-17", "RES-06")
def test_stored_pages_are_loaded() -> None:
    stored = TaskResult(ref=Reference(store="s", key="k", checksum="c", size=1))

    assert collected(Collect(path="v", into="all"), [page({"v": 1}), stored], lambda _: {"v": [2]}) == [1, 2]


@pytest.mark.req("O-28", "O-22")
@pytest.mark.parametrize(
    ("result", "wrapped", "gives"),
    [
        ({"status": 200, "data": {"n": 1}}, True, {"status": 200, "data": {"n": 1, "all": [1]}}),
        ({"n": 1}, False, {"n": 1, "all": [1]}),
        ([7], False, {"all": [1]}),
        ({"status": 200, "data": [7]}, True, {"status": 200, "data": {"all": [1]}}),
    ],
)
def test_collected_values_become_a_field_of_the_payload(result: Any, wrapped: bool, gives: Any) -> None:
    joined = with_collected(TaskResult(result=result, wrapped=wrapped), {"all": [1]}, no_stored_results)

    assert (joined.result, joined.wrapped) == (gives, wrapped)


def test_a_failed_result_is_unchanged_by_collected_values() -> None:
    failed = TaskResult(status=Status.ERROR, error=Error(kind="k", message="m"))

    assert with_collected(failed, {"all": [1]}, no_stored_results) is failed
