"""Counting work: how many calls of functions something makes, the same number on any machine, busy or not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def count_calls(work: Callable[[], T]) -> tuple[T, int]:
    """The result of `work`, and the number of function calls for it, built-in ones included."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return work(), calls
    finally:
        sys.setprofile(before)
