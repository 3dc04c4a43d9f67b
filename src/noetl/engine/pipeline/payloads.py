"""Payloads: what may be recorded of a task run. Large results go by reference, large texts are cut (RES-03, RES-04).

Worker and server hold to the same rules: the worker first, and the server for whatever a worker sent all the same.
Free data that is too large for an event (`ctx` writes, args, details of an error) is whole here; it is set apart when
the event is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from noetl.base.errors import ToolError
from noetl.events.loops import IterationDone, IterationFailed
from noetl.events.outcomes import Error, Outcome, Reference, Status, TaskResult
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import TaskProcessed
from noetl.events.v2_case_runs import CaseHeard, CaseStarted
from noetl.net.net import Net
from noetl.templates.views import own_keys

MAX_RESULT_BYTES = 64 * 1024 * 1024  # reliability.md §3.6
MIN_TEXT_BYTES = 500  # whatever the limit, a text says this much

_Record = TypeVar("_Record", bound=msgspec.Struct)
_Given = TypeVar("_Given", Outcome, TaskResult)
_GIVING = StepDone | IterationDone
# At times; every entry of every report comes by here twice, so they are told apart by one look at their class.
_LARGE = frozenset({TaskProcessed, StepDone, IterationDone, StepFailed, IterationFailed, CaseStarted, CaseHeard})


def fitted_entry(entry: _Record, limit_bytes: int, keep: Keep) -> _Record:
    """An entry of a report as it may be recorded; the very same one when nothing in it is large."""
    if type(entry) not in _LARGE:
        return entry
    if isinstance(entry, TaskProcessed):
        outcome = fitted(entry.outcome, limit_bytes, keep)
        changed = entry if outcome is entry.outcome else _with(entry, outcome=outcome)
        return _short_errors(changed, limit_bytes) if entry.decision.error or entry.decision.case else changed
    if isinstance(entry, _GIVING):
        result = fitted_result(entry.result, limit_bytes, keep)
        return entry if result is entry.result else _with(entry, result=result)
    return _short_errors(entry, limit_bytes)


def fitted(outcome: Outcome, limit_bytes: int, keep: Keep) -> Outcome:
    """The outcome with a large result by reference, a large error and a long output cut."""
    if outcome.meta.stdout is not None and not fits(outcome.meta.stdout, room := _room(limit_bytes, 2)):
        outcome = _with(outcome, meta=_with(outcome.meta, stdout=cut(outcome.meta.stdout, room)))
    if outcome.error is not None:
        error = short(outcome.error, limit_bytes)
        return outcome if error is outcome.error else _with(outcome, error=error)
    if fits(outcome.result, limit_bytes):
        return outcome
    return stored_apart(outcome, keep)


def fitted_result(result: TaskResult, limit_bytes: int, keep: Keep) -> TaskResult:
    """The same for the result of a step."""
    if result.error is not None:
        error = short(result.error, limit_bytes)
        result = result if error is result.error else _with(result, error=error)
    if fits(result.result, limit_bytes):
        return result
    return stored_apart(result, keep)


def stored_apart(record: _Given, keep: Keep) -> _Given:
    """The record with its result by reference. Which words of the envelope the payload has as keys stays with the
    record, so that `step.status` reads the right one without loading the other (TPL-07)."""
    full = record.result
    payload = full["data"] if record.wrapped and isinstance(full, dict) and "data" in full else full
    return _with(record, result=None, ref=keep(full), own=own_keys(payload))


def short(error: Error, limit_bytes: int) -> Error:
    """The error with its text cut, and that of its causes."""
    room = _room(limit_bytes, 8)
    changes: dict[str, Any] = {}
    if not fits(error.message, room):
        changes["message"] = cut(error.message, room)
    if error.cause is not None and (cause := short(error.cause, limit_bytes)) is not error.cause:
        changes["cause"] = cause
    return _with(error, **changes) if changes else error


def cut(text: str, room_bytes: int) -> str:
    """The beginning of a text, with a mark that tells how long it was; together they fit, so it is cut only once."""
    mark = f" … (cut, {len(text)} characters)"
    room = room_bytes - len(msgspec.json.encode(mark))
    kept = text[:room]
    while (size := len(msgspec.json.encode(kept))) > room:
        # Encoded text may be longer than its characters, by escapes and UTF-8. Cut in proportion, and look again: a few
        # rounds at most, where a search character by character would be quadratic.
        kept = kept[: len(kept) * room // (size + 1)]
    return kept + mark


def within_cap(outcome: Outcome) -> Outcome:
    """The outcome, or the error `result.too_large` where the result is more than any store takes (reliability.md
    §3.6)."""
    if not outcome.ok or fits(outcome.result, MAX_RESULT_BYTES):
        return outcome
    return _with(outcome, status=Status.ERROR, result=None, error=too_large())


def refuse_above_cap(size_bytes: int) -> None:
    """The same for what is no outcome: the result of a loop. ToolError `result.too_large`."""
    if size_bytes > MAX_RESULT_BYTES:
        error = too_large()
        raise ToolError(error.kind, error.message)


def too_large() -> Error:
    most = f"{MAX_RESULT_BYTES >> 20} MiB"
    return Error(kind="result.too_large", message=f"the value has more than {most}: narrow it, or take it in pieces")


def _room(limit_bytes: int, share: int) -> int:
    """For one text: an event has one output at most, and a few errors with their causes. Where references come first
    the limit of texts is the usual one (RES-04)."""
    return max((limit_bytes if limit_bytes >= 0 else MAX_PAYLOAD_BYTES) // share, MIN_TEXT_BYTES)


def _short_errors(record: _Record, limit_bytes: int) -> _Record:
    """Every error in a record, wherever it stands."""
    changes = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        new = _shortened(value, limit_bytes)
        if new is not value:
            changes[name] = new
    return _with(record, **changes) if changes else record


def _shortened(value: Any, limit_bytes: int) -> Any:
    match value:
        case Error():
            return short(value, limit_bytes)
        case msgspec.Struct():
            return _short_errors(value, limit_bytes)
        case tuple() if value:
            new = tuple(_shortened(one, limit_bytes) for one in value)
            return value if all(a is b for a, b in zip(value, new, strict=True)) else new
        case _:
            return value


def _with(record: _Record, **changes: Any) -> _Record:
    return msgspec.structs.replace(record, **changes)


# How much may travel inside an event (RES-03, RES-04).
MAX_PAYLOAD_BYTES = 65_536  # O-33

Keep = Callable[[Any], Reference]


def nowhere_to_keep(value: Any) -> Reference:
    """Of those who have no results store."""
    raise AssertionError("there is no results store here")


def inline_bytes(net: Net) -> int:
    """What a net lets travel inside an event."""
    return int(net.executor.limits.get("max_payload_bytes", MAX_PAYLOAD_BYTES))


def max_payload_bytes(net: Net) -> int:
    """The same for results: nothing at all where references come first (RES-04)."""
    return -1 if net.executor.reference_first else inline_bytes(net)


def fits(value: Any, limit_bytes: int) -> bool:
    """Whether a value may travel inline."""
    if value is None or isinstance(value, bool | int | float):
        return limit_bytes >= 0 or value is None
    if isinstance(value, str) and len(value) * 6 + 2 <= limit_bytes:  # no encoding is longer
        return True
    return len(msgspec.json.encode(value)) <= limit_bytes
