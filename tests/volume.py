"""Test volume: `make test` runs a representative part, `make test-deep` everything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
IS_DEEP = bool(os.environ.get("NOETL_DEEP"))


def one_in(number: int, items: Sequence[T], first: int = 0) -> Sequence[T]:
    """Every `number`th of the items, from `first` on; all of them in `make test-deep`."""
    return items if IS_DEEP else items[first % number :: number]
