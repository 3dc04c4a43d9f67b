"""Referred: the stored values that records name, for whoever has them at hand before they are read (RES-06)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, get_args

import msgspec

from noetl.events.orders import Order
from noetl.events.references import Reference

PREFETCHED_BYTES = 1 << 20  # of one value: larger ones may never be read


def wanted_of(order: Order, largest_bytes: int = PREFETCHED_BYTES) -> Iterator[Reference]:
    """What an order refers to, as far as it is small; the collection of a loop whatever its size."""
    results = [one.ref for result in order.results.values() for one in (result, *result.tasks.values()) if one.ref]
    others = references_in((order.position, order.iterations, order.side_run))
    yield from (one for one in (*results, *others) if one.size <= largest_bytes)
    # The collection is read for sure: every iteration needs its element.
    if order.iterations is not None and order.iterations.items_ref is not None:
        yield order.iterations.items_ref


def references_in(value: Any) -> Iterator[Reference]:
    """Every reference inside a record. What a tool or an author gave is no record: it holds none, and is not searched,
    however large it is."""
    inner: Iterable[Any] = ()
    match value:
        case Reference():
            yield value
        case msgspec.Struct():
            inner = (getattr(value, name) for name in _leading(type(value)))
        case dict():
            inner = value.values()
        case list() | tuple():
            inner = value
    for one in inner:
        if one is not None:
            yield from references_in(one)


@lru_cache(maxsize=64)
def _leading(owner: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields that hold records."""
    return tuple(field.name for field in msgspec.structs.fields(owner) if _holds_records(field.type))


def _holds_records(type_: Any) -> bool:
    is_record = isinstance(type_, type) and issubclass(type_, msgspec.Struct)
    return is_record or any(map(_holds_records, get_args(type_)))
