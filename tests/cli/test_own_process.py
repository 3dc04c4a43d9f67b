"""Servers and workers look for cycles rarely, and still do (performance.md §2)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from noetl.cli import own_process
from noetl.cli.own_process import NEW_OBJECTS, tune_collection


class Knot:
    def __init__(self) -> None:
        self.self = self


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(own_process, "is_own_process", True)  # nothing is tuned in the process of another program
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_the_garbage_collector_finds_a_cycle_after_a_delay(collector: None) -> None:
    tune_collection()
    gc.collect()
    knot = weakref.ref(Knot())
    few = [[number] for number in range(1_000)]
    assert knot() is not None, "as often as Python comes, it would have looked by now"

    many = [[number] for number in range(2 * NEW_OBJECTS)]  # meanwhile other threads may let go of older ones

    assert knot() is None
    assert len(few) + len(many) == 2 * NEW_OBJECTS + 1_000
