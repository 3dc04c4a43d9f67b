"""Which tests are tried once more when they fail (docs/decisions/0007)."""

from __future__ import annotations

import pytest

from tests.conftest import HERE, IS_DEEP, WITH_PROCESSES, is_tried_again

PURE = ("analysis", "compiler", "document", "engine", "graph", "migration", "net", "pipeline", "records", "templates")


@pytest.mark.parametrize("room", PURE)
def test_what_is_pure_fails_for_a_reason(room: str, request: pytest.FixtureRequest) -> None:
    assert (HERE / room).is_dir()
    assert not is_tried_again(HERE / room / "test_x.py")
    assert request.node.get_closest_marker("flaky") is None


@pytest.mark.parametrize("room", sorted(WITH_PROCESSES))
def test_what_has_processes_is_tried_again_but_in_deep_runs(room: str) -> None:
    assert (HERE / room).is_dir()
    assert is_tried_again(HERE / room / "test_x.py") is not IS_DEEP
