"""A worker's turn as it comes over a network, read without trust (SRV-04).

A report has no field for a next step, or for anything else that is the server's to decide. One that brings such a
field is still read, with the names of what it has no right to, so that the engine can keep it as refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from noetl.events.orders import Report, Turn

_FIELDS = frozenset(Report.__struct_fields__)
_turns = msgspec.json.Decoder(Turn)
_encoder = msgspec.json.Encoder()


def read_turn(body: bytes) -> Turn:
    """The turn in `body`. msgspec.DecodeError for what is no turn at all.

    Whatever would be written exactly as it came brings nothing of its own: an honest worker's turn is read once, in
    15 µs instead of 125.
    """
    with suppress(msgspec.ValidationError):
        turn = _turns.decode(body)
        if _encoder.encode(turn) == body and not any(report.surplus for report in turn.reports):
            return turn
    return _read_warily(body)


def _read_warily(body: bytes) -> Turn:
    raw = msgspec.json.decode(body)
    reports = raw.get("reports") if isinstance(raw, dict) else None
    told = [one for one in reports if isinstance(one, dict)] if isinstance(reports, list) else []
    extra = [sorted(one.keys() - _FIELDS) for one in told]
    for one, names in zip(told, extra, strict=True):
        for name in names:
            del one[name]
        if one.pop("surplus", None):
            names.append("surplus")  # it is ours to fill
    turn = msgspec.convert(raw, Turn, str_keys=True)
    checked = zip(turn.reports, told, extra, strict=True)
    return msgspec.structs.replace(turn, reports=tuple(_with_surplus(*one) for one in checked))


def _with_surplus(report: Report, raw: dict[str, Any], extra: list[str]) -> Report:
    surplus = (*extra, *_unknown(report, raw, ""))
    return msgspec.structs.replace(report, surplus=surplus) if surplus else report


def _unknown(known: Any, raw: Any, place: str) -> Iterator[str]:
    """The fields of `raw` that nobody has read, by their place."""
    if isinstance(known, msgspec.Struct) and isinstance(raw, dict):
        config = known.__struct_config__
        fields = {*known.__struct_fields__, config.tag_field}
        yield from (f"{place}{name}" for name in sorted(raw.keys() - fields))
        for name in known.__struct_fields__:
            if name in raw:
                yield from _unknown(getattr(known, name), raw[name], f"{place}{name}.")
    elif isinstance(known, tuple) and isinstance(raw, list):
        for index, (one, its) in enumerate(zip(known, raw, strict=True)):
            yield from _unknown(one, its, f"{place}{index}.")
