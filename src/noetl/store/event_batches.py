"""Batches of events: the events that one commit adds to the history of one execution are one row (docs/decisions/0016).

A batch holds the ids, types, envelopes and payloads of its events as JSON in the order of their `seq`, so that the
database can read them too: it keeps ids and ends unique, and shows the events one by one in the view `event`. A
checksum over all four shows whether a byte has changed in the store (reliability.md §4.2).

Most of an envelope is the same for the events of a commit, so it is written once (docs/decisions/0018):

    event_ids   [0, 0, "r1"]    0: the event is named by its position
    envelopes   {"v": [1700000000.5, "server", null, "fetch", ...], "e": [[0, 1, 7, 3, 4, 2, 0, 1], ...]}

`v` are the values, `e` has for each event where its own are among them: ts, source, parent, step, step run, task run;
then `on_behalf` and `schema` as they are. A parent is a position, or below zero a place in `v` (-1 is the first one).
Batches of the version before have ids in full and a list of envelopes in full; both are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any
from zlib import crc32

import msgspec

from noetl.base.errors import BackendError, UnreadableError
from noetl.base.ids import positional
from noetl.events.control import Emitted
from noetl.events.envelope import Event, decode_payload
from noetl.events.payloads import EventSource
from noetl.store.contract import Commit, EventFilter
from noetl.store.row_codecs import payload_bodies

# ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema
_Envelope = tuple[float, EventSource, str | None, str | None, str | None, str | None, bool, int]
_Places = tuple[int, int, int, int, int, int, int, int]


class _Envelopes(msgspec.Struct):
    """The envelopes of a batch: values, and the places among them by event."""

    v: list[float | str | None]
    e: list[_Places]


_encode = msgspec.json.Encoder().encode
_texts = msgspec.json.Decoder(list[str])
_ids = msgspec.json.Decoder(list[int | str])
_full_envelopes = msgspec.json.Decoder(list[_Envelope])
_envelopes = msgspec.json.Decoder(_Envelopes)
_payloads = msgspec.json.Decoder(list[msgspec.Raw])
_MOST_EVENTS = 256  # of a batch that is made from rows of an earlier program
_SOURCES = {one.value: one for one in EventSource}
_DAMAGED = -1  # marks damage: no checksum has this value, so the row is never trusted


def batch_values(commits: Iterable[Commit]) -> list[tuple[Any, ...]]:
    """One row for each commit that has events: execution_id, first_seq, last_seq, event_ids, types, envelopes,
    payloads, checksum."""
    return [_commit_values(one) for one in commits if one.events]


def _commit_values(commit: Commit) -> tuple[Any, ...]:
    events, execution_id = commit.events, commit.execution.execution_id
    # `_value_`, since `value` is a property in Python: two calls for each event.
    envelopes = _packed_envelopes(
        execution_id,
        [
            (e.ts, e.source._value_, e.parent_id, e.step, e.step_run_id, e.task_run_id, e.on_behalf, e.schema)
            for e in events
        ],
    )
    # 0 means that the id follows from the position, as it does for most events: one digit instead of fifty characters
    # (docs/decisions/0018). Compared with the result of `positional`, without a call for each.
    ids = _encode([0 if e.event_id == f"{execution_id}/{e.seq}" else e.event_id for e in events])
    # Only an event of an author has a type that its class does not determine; the property would cost a call for each
    # event.
    types = _encode([e.event_type if type(e.payload) is Emitted else e.payload.event_type for e in events])
    parts = (ids, types, envelopes, b"[%b]" % b",".join(payload_bodies(commit)))
    texts = (ids.decode(), types.decode(), envelopes.decode(), parts[3].decode())
    return (execution_id, events[0].seq, events[-1].seq, *texts, _checksum(*parts))


def _packed_envelopes(execution_id: str, envelopes: Iterable[Sequence[Any]]) -> bytes:
    envelopes = list(envelopes)
    positions = {parent_id: _position_in(execution_id, parent_id) for parent_id in {one[2] for one in envelopes}}
    # In two passes; in the second, each value is known by its place. No function is called for a value, since this runs
    # for every event of every step.
    seen: dict[Any, None] = {}
    for ts, source, parent_id, step, step_run_id, task_run_id, _, _ in envelopes:
        seen[ts] = seen[source] = seen[step] = seen[step_run_id] = seen[task_run_id] = None
        if positions[parent_id] is None:
            seen[parent_id] = None
    at = {value: place for place, value in enumerate(seen)}
    parents = {one: -1 - at[one] if position is None else position for one, position in positions.items()}
    rows = [
        (at[ts], at[source], parents[parent], at[step], at[run], at[task], 1 if on_behalf else 0, schema)
        for ts, source, parent, step, run, task, on_behalf, schema in envelopes
    ]
    return _encode({"v": list(at), "e": rows})


def _position_in(execution_id: str, event_id: str | None) -> int | None:
    """The position that an id names in this execution, None where it names none. "007" is no position: it would read as
    7."""
    if event_id is None or not event_id.startswith(f"{execution_id}/"):
        return None
    number = event_id[len(execution_id) + 1 :]
    return int(number) if number.isdecimal() and str(int(number)) == number else None


def _unpacked_envelopes(execution_id: str, text: bytes) -> list[_Envelope]:
    if text.startswith(b"["):  # of the version before
        return _full_envelopes.decode(text)
    found = _envelopes.decode(text)
    values: list[Any] = found.v
    return [
        (
            values[ts],
            _SOURCES[values[source]],
            positional(execution_id, parent) if parent >= 0 else values[-1 - parent],
            values[step],
            values[step_run_id],
            values[task_run_id],
            on_behalf == 1,
            schema,
        )
        for ts, source, parent, step, step_run_id, task_run_id, on_behalf, schema in found.e
    ]


def batches_of_rows(execution_id: str, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The same for events that an earlier program stored as rows: seq, event_id, event_type, ts, source, parent_id,
    step, step_run_id, task_run_id, on_behalf, schema, payload as bytes, checksum. Damaged rows are unchanged."""
    parts = [rows[at : at + _MOST_EVENTS] for at in range(0, len(rows), _MOST_EVENTS)]
    return [_row_values(execution_id, part) for part in parts]


def _row_values(execution_id: str, rows: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    envelopes = _packed_envelopes(execution_id, [row[3:11] for row in rows])
    bodies = [_sound_body(row[11], row[12]) for row in rows]
    payloads = [
        body if body is not None else _encode(row[11].decode(errors="replace"))
        for row, body in zip(rows, bodies, strict=True)
    ]
    ids, types = _encode([row[1] for row in rows]), _encode([row[2] for row in rows])
    parts = (ids, types, envelopes, b"[%b]" % b",".join(payloads))
    # A batch with one damaged event keeps the mark: packing must not make it look sound.
    checksum = _DAMAGED if None in bodies else _checksum(*parts)
    return (execution_id, rows[0][0], rows[-1][0], *_texts_of(parts), checksum)


def _sound_body(body: bytes, checksum: int | None) -> bytes | None:
    """The body of the event; None if it differs from what was written."""
    if checksum is not None and crc32(body) != checksum:
        return None
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return body


def _texts_of(parts: Iterable[bytes]) -> Iterable[str]:
    return (part.decode() for part in parts)


def _checksum(ids: bytes, types: bytes, envelopes: bytes, payloads: bytes) -> int:
    return crc32(payloads, crc32(envelopes, crc32(types, crc32(ids))))


def batch_events(
    execution_id: str, row: Sequence[Any], *, after: int = 0, only: EventFilter | None = None
) -> list[Event]:
    """The events of a row (first_seq, last_seq, event_ids, types, envelopes, payloads, checksum, trace_id) that come
    after `after` and are asked for, in order, no more than the limit of all. UnreadableError if the row differs from
    what was written, or a newer program wrote it."""
    first_seq, last_seq, ids_text, types_text, envelopes_text, payloads_text, checksum, trace_id = row
    try:
        parts = [text.encode() for text in (ids_text, types_text, envelopes_text, payloads_text)]
        if checksum is not None and _checksum(*parts) != checksum:  # none: an earlier program wrote it to the view
            raise ValueError("it differs from what was written")
        ids, types = _ids.decode(parts[0]), _texts.decode(parts[1])
        envelopes, payloads = _unpacked_envelopes(execution_id, parts[2]), _payloads.decode(parts[3])
        # Payloads stay encoded until here: if one event of a batch is wanted, only that one is decoded.
        wanted = _wanted_places(types, envelopes, max(after + 1 - first_seq, 0), only)
        return [
            _event(execution_id, first_seq + at, ids[at], types[at], envelopes[at], payloads[at], trace_id)
            for at in wanted
        ]
    except (ValueError, LookupError, msgspec.DecodeError) as problem:
        where = f"the batch of events {first_seq} to {last_seq} of execution {execution_id}"
        raise UnreadableError(f"{where} is damaged: {problem}") from problem


def _wanted_places(types: list[str], envelopes: list[_Envelope], begin: int, only: EventFilter | None) -> Sequence[int]:
    """The places of the wanted events, at most as many as the limit. The payloads of the others are not decoded."""
    places: Sequence[int] = range(begin, len(types))
    if only is None:
        return places
    if only.types or only.step is not None:
        fits = type_matcher(only.types)
        places = [at for at in places if only.step in (None, envelopes[at][3]) and fits(types[at])]
    if only.limit is None:
        return places
    return places[max(len(places) - only.limit, 0) :] if only.newest else places[: only.limit]


def _event(
    execution_id: str,
    seq: int,
    event_id: int | str,
    event_type: str,
    envelope: _Envelope,
    body: msgspec.Raw,
    trace_id: str,
) -> Event:
    ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema = envelope
    try:
        payload = decode_payload(event_type, body, schema)
    except BackendError as problem:
        raise UnreadableError(f"event {seq} of execution {execution_id} cannot be read: {problem}") from problem
    return Event(
        execution_id=execution_id,
        seq=seq,
        event_id=event_id if isinstance(event_id, str) else positional(execution_id, seq),
        ts=ts,
        source=source,
        payload=payload,
        trace_id=trace_id,
        parent_id=parent_id,
        step=step,
        step_run_id=step_run_id,
        task_run_id=task_run_id,
        on_behalf=on_behalf,
        schema=schema,
    )


@lru_cache(maxsize=64)
def type_matcher(patterns: tuple[str, ...]) -> Callable[[str], object]:
    """Whether a type is one of these, in which only `*` matches any text; without types all match."""
    if not patterns:
        return lambda event_type: True
    texts = (".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
    return re.compile("|".join(f"(?:{text})" for text in texts), re.DOTALL).fullmatch


def picked(batches: Iterable[list[Event]], only: EventFilter | None) -> list[Event]:
    """The events that `only` selects, in order; `only` says from which end the batches come."""
    limit, newest = (only.limit, only.newest) if only is not None else (None, False)
    parts: list[list[Event]] = []
    number = 0
    for batch in batches:
        # Batches are read lazily: once the limit is reached, no further batch is read from the database.
        parts.append(batch)
        number += len(batch)
        if limit is not None and number >= limit:
            break
    if newest:
        parts.reverse()
    found = [event for part in parts for event in part]
    if limit is None:
        return found
    return found[max(number - limit, 0) :] if newest else found[:limit]


def picked_events(events: list[Event], only: EventFilter | None) -> list[Event]:
    """The events of a whole stream that `only` selects."""
    if only is None:
        return events
    fits = type_matcher(only.types)
    return picked([[e for e in events if only.step in (None, e.step) and fits(e.event_type)]], only)
