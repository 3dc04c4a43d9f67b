"""Tables with very many columns: the work of tools grows with the number of columns, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from noetl.operations.comparisons import step_order
from noetl.tools.convert import child
from noetl.tools.convert.sources import SourceView
from noetl.tools.convert.tables import ConvertRequest, TableFile, distinct_names
from noetl.tools.convert.tool import columns_of
from noetl.tools.transfer.contract import renamed_columns

FEW, MANY = 500, 8_000  # sixteen times as many


def names(count: int) -> list[str]:
    return [f"column_{number}" for number in range(count)]


def typed(count: int) -> Any:
    """The table of a source that has so many columns."""
    request = ConvertRequest(source=TableFile(path="s", name="s", format="csv"), folder="f")
    source = SourceView(columns=[(name, "BIGINT") for name in names(count)])
    return child._table(None, source, request)


WORK: dict[str, Callable[[int], Any]] = {
    "columns of a task": lambda count: columns_of(names(count)),
    "columns of a source": typed,
    "columns of one name": lambda count: distinct_names(["same"] * count),
    "columns of a mapping": lambda count: renamed_columns(names(count), dict.fromkeys(names(count), "x")),
    "steps of two executions": lambda count: step_order([names(count)[::2], names(count)]),
}


def processor_s(work: Callable[[int], Any], count: int) -> float:
    measured = []
    for _ in range(3):
        began = time.process_time()
        work(count)
        measured.append(time.process_time() - began)
    return min(measured)


@pytest.mark.parametrize("what", WORK)
def test_sixteen_times_as_many_columns_cost_far_less_than_the_square_of_that(what: str) -> None:
    few, many = (processor_s(WORK[what], count) for count in (FEW, MANY))

    assert many < 80 * few


def test_columns_of_one_name_get_numbers_and_none_twice() -> None:
    assert distinct_names(["a", "A", "a_1", "a", "a"]) == ["a", "A_1", "a_1_1", "a_2", "a_3"]


def test_a_step_that_one_execution_left_out_comes_before_its_follower_in_the_other() -> None:
    assert step_order([["c", "d"], ["a", "b", "c"], ["x"], ["b", "e", "d"]]) == ["a", "b", "c", "e", "d", "x"]
