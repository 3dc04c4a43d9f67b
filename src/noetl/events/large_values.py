"""Large values of events: they go to the results store, and a reference takes their place (RES-01, RES-03). Also the
references that records hold.

This is the last check before the log, and it knows no kind of event: any free data of a payload may be stored
separately, single values first, whole fields where many small ones are too much together. `apart` in the payload lists
the places, so that data which only looks like a reference is never taken for one. This module knows neither the store
nor its permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from noetl.events.orders import Order
from noetl.events.outcomes import Reference
from noetl.events.payloads import Payload, Place

Keep = Callable[[Any], Reference]
Load = Callable[[Reference], Any]
_Record = TypeVar("_Record", bound=Payload)
OVERHEAD_BYTES = 4_096  # of a payload, for everything in it that is not data: ids, names, references
_WORTH_BYTES = 512  # a smaller value is hardly larger than its reference
_encoder = msgspec.json.Encoder()
PREFETCHED_BYTES = 1 << 20  # of one value: larger ones may never be read


def set_apart(payload: _Record, limit_bytes: int, keep: Keep) -> _Record:
    """The payload as it may be stored: no value in it over the limit, and not much more than that in all."""
    if not _may_carry(type(payload)):
        return payload
    # Most payloads are small as a whole: then one encoding is enough, and no value is measured alone.
    if len(_encoder.encode(payload)) <= limit_bytes:
        return payload
    cutting = _Cutting(payload, keep)
    # Single values first: the rest of the event stays readable without the results store.
    for place, value in _values(payload, ()):
        if len(_encoder.encode(value)) > limit_bytes:
            cutting.take(place, value)
    allowed = limit_bytes + OVERHEAD_BYTES
    if cutting.size() > allowed:
        cutting.take_fields(allowed)
    done: _Record = cutting.done()
    return done


def put_back(payload: _Record, load: Load) -> _Record:
    """The payload with its stored values restored. ToolError `result.missing` or `result.corrupt` if a value is
    unavailable."""
    if not payload.apart:
        return payload
    whole: Any = payload
    for place in payload.apart:
        found = _at(whole, place)
        # A list is replaced by a list with the reference in it, since the field's type allows nothing else.
        [stub] = found if isinstance(found, list) else [found]
        whole = _with(whole, place, load(msgspec.convert(stub, Reference)))
    return msgspec.structs.replace(whole, apart=())  # type: ignore[no-any-return]


class _Cutting:
    """A payload from which large parts are removed."""

    def __init__(self, payload: Any, keep: Keep) -> None:
        self._whole = self._payload = payload
        self._keep = keep
        self._places: list[Place] = []

    def take(self, place: Place, value: Any) -> None:
        stub: Any = msgspec.to_builtins(self._keep(value))
        self._payload = _with(self._payload, place, [stub] if isinstance(value, list) else stub)
        self._places.append(place)

    def take_fields(self, allowed: int) -> None:
        """Whole fields, the largest first, until the rest is small enough. Values stored out of a field go with it."""
        sized = [(len(_encoder.encode(value)), place) for place, value in _fields(self._payload, ())]
        # The largest first: fewest fields are taken out, and most of the event stays readable.
        for size, place in sorted(sized, key=lambda one: -one[0]):
            if self.size() <= allowed or size < _WORTH_BYTES:
                return
            if place not in self._places:
                # The whole field is taken from the payload as it was decided, so references inside it are given up.
                self._places = [one for one in self._places if one[: len(place)] != place]
                self.take(place, _at(self._whole, place))

    def size(self) -> int:
        return len(_encoder.encode(self.done()))

    def done(self) -> Any:
        return msgspec.structs.replace(self._payload, apart=tuple(self._places)) if self._places else self._payload


def _values(record: msgspec.Struct, around: Place) -> Iterator[tuple[Place, Any]]:
    """The single values in the free data of a record: the entries of a mapping one by one, everything else as a
    whole."""
    for name, value in _free(record):
        place = (*around, name)
        if isinstance(value, dict):
            yield from (((*place, key), one) for key, one in value.items())
        else:
            yield place, value
    for inside, inner in _inner_records(record):
        yield from _values(inner, (*around, *inside))


def _fields(record: msgspec.Struct, around: Place) -> Iterator[tuple[Place, Any]]:
    """The same for whole fields that a reference can replace."""
    for name, value in _free(record):
        if _free_fields(type(record))[name]:
            yield (*around, name), value
    for inside, inner in _inner_records(record):
        yield from _fields(inner, (*around, *inside))


def _free(record: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    for name in _free_fields(type(record)):
        value = getattr(record, name)
        # Numbers, booleans and empty values are never large.
        if isinstance(value, dict | list | str) and value:
            yield name, value


def _inner_records(record: msgspec.Struct) -> Iterator[tuple[Place, msgspec.Struct]]:
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, msgspec.Struct):
            yield (name,), value
        elif isinstance(value, tuple):
            yield from (((name, index), one) for index, one in enumerate(value) if isinstance(one, msgspec.Struct))


@lru_cache(maxsize=256)
def _free_fields(owner: type[msgspec.Struct]) -> dict[str, bool]:
    """The fields with data of a tool or an author, and whether a reference may replace the whole field."""
    fields = {field.name: field.type for field in msgspec.structs.fields(owner)}
    return {name: _takes_reference(type_) for name, type_ in fields.items() if _is_free(type_)}


def _is_free(type_: Any) -> bool:
    return type_ is Any or any(_is_free(arg) for arg in get_args(type_))


def _takes_reference(type_: Any) -> bool:
    """Whether a reference may replace the whole field. Not for a mapping of mappings: its decoder requires a mapping
    under every key."""
    if get_origin(type_) is dict:
        return get_args(type_)[1] is Any
    return type_ is Any or get_origin(type_) is list or any(_takes_reference(arg) for arg in get_args(type_))


@lru_cache(maxsize=256)
def _may_carry(owner: type[msgspec.Struct]) -> bool:
    """Whether records of this kind can hold free data at all; most events cannot, and are not even measured."""
    return any(_reaches(field.type) for field in msgspec.structs.fields(owner))


def _reaches(type_: Any) -> bool:
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return _may_carry(type_)
    return type_ is Any or any(_reaches(arg) for arg in get_args(type_))


def _at(record: Any, place: Place) -> Any:
    for part in place:
        record = getattr(record, str(part)) if isinstance(record, msgspec.Struct) else record[part]
    return record


def _with(record: Any, place: Place, value: Any) -> Any:
    """A copy of `record` with `value` at `place`; the original does not change."""
    if not place:
        return value
    part, rest = place[0], place[1:]
    if isinstance(record, msgspec.Struct):
        return msgspec.structs.replace(record, **{str(part): _with(getattr(record, str(part)), rest, value)})
    new = _with(record[part], rest, value)
    if isinstance(record, tuple):
        assert isinstance(part, int)
        return (*record[:part], new, *record[part + 1 :])
    return {**record, part: new}


# The stored values that records refer to, for callers that load them before they are read (RES-06).


def wanted_of(order: Order, largest_bytes: int = PREFETCHED_BYTES) -> Iterator[Reference]:
    """The references of an order to small values, and to the collection of a loop of any size."""
    results = [one.ref for result in order.results.values() for one in (result, *result.tasks.values()) if one.ref]
    others = references_in((order.position, order.iterations, order.side_run))
    yield from (one for one in (*results, *others) if one.size <= largest_bytes)
    # The collection is always read: every iteration needs its element.
    if order.iterations is not None and order.iterations.items_ref is not None:
        yield order.iterations.items_ref


def references_in(value: Any) -> Iterator[Reference]:
    """Every reference inside a record. Data of a tool or an author is not a record and is not searched."""
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
