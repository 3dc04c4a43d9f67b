"""Payloads: the recorded data of a task run. Large results are stored by reference, large texts are truncated (RES-03,
RES-04).

The worker applies these rules first; the server applies them again, since it relies on no worker. Other data that is
too large for an event (`ctx` writes, args, details of an error) is not changed here; it is stored apart when the event
is stored (`events/large_values.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from noetl.base.errors import ToolError
from noetl.events.loops import IterationDone, IterationFailed
from noetl.events.outcomes import Error, Outcome, Reference, Status, TaskResult, unwrapped
from noetl.events.steps import CaseHeard, CaseStarted, StepDone, StepFailed
from noetl.events.tasks import TaskProcessed
from noetl.net.net import Net
from noetl.templates.views import own_keys

MAX_RESULT_BYTES = 64 * 1024 * 1024  # reliability.md §3.6
# What a policy writes to variables travels inside the report of its task, and a report has to fit into a turn
# (`MAX_TURN_BYTES`) beside its result.
MAX_WRITES_BYTES = 6 * 1024 * 1024
MIN_TEXT_BYTES = 500  # a text is never cut shorter than this, at any limit

_Record = TypeVar("_Record", bound=msgspec.Struct)
_WithResult = TypeVar("_WithResult", Outcome, TaskResult)
_RESULT_ENTRIES = StepDone | IterationDone
# Entries that may hold something large. Every entry of every report is checked twice, so the class decides first.
_MAY_BE_LARGE = frozenset({TaskProcessed, StepDone, IterationDone, StepFailed, IterationFailed, CaseStarted, CaseHeard})


def fitted_entry(entry: _Record, limit_bytes: int, keep: Keep) -> _Record:
    """An entry of a report as it may be recorded; the same object when nothing in it is large."""
    if type(entry) not in _MAY_BE_LARGE:
        return entry
    if isinstance(entry, TaskProcessed):
        outcome = fitted_outcome(entry.outcome, limit_bytes, keep)
        changed = entry if outcome is entry.outcome else _with(entry, outcome=outcome)
        return _short_errors(changed, limit_bytes) if entry.decision.error or entry.decision.case else changed
    if isinstance(entry, _RESULT_ENTRIES):
        result = fitted_result(entry.result, limit_bytes, keep)
        return entry if result is entry.result else _with(entry, result=result)
    return _short_errors(entry, limit_bytes)


def fitted_outcome(outcome: Outcome, limit_bytes: int, keep: Keep) -> Outcome:
    """The outcome with a large result by reference, a large error and a long output cut."""
    if outcome.meta.stdout is not None and not fits(outcome.meta.stdout, room := _text_limit(limit_bytes, 2)):
        outcome = _with(outcome, meta=_with(outcome.meta, stdout=truncated(outcome.meta.stdout, room)))
    if outcome.error is not None:
        error = shortened_error(outcome.error, limit_bytes)
        return outcome if error is outcome.error else _with(outcome, error=error)
    if fits(outcome.result, limit_bytes):
        return outcome
    return stored_apart(outcome, keep)


def fitted_result(result: TaskResult, limit_bytes: int, keep: Keep) -> TaskResult:
    """The same for the result of a step."""
    if result.error is not None:
        error = shortened_error(result.error, limit_bytes)
        result = result if error is result.error else _with(result, error=error)
    if fits(result.result, limit_bytes):
        return result
    return stored_apart(result, keep)


def stored_apart(record: _WithResult, keep: Keep) -> _WithResult:
    """The record with its result by reference. Which words of the envelope the payload has as keys stays with the
    record, so that `step.status` reads the right one without loading the other (TPL-07)."""
    full = record.result
    return _with(record, result=None, ref=keep(full), own=own_keys(unwrapped(full, wrapped=record.wrapped)))


def shortened_error(error: Error, limit_bytes: int) -> Error:
    """The error with its text cut, and that of its causes."""
    room = _text_limit(limit_bytes, 8)
    changes: dict[str, Any] = {}
    if not fits(error.message, room):
        changes["message"] = truncated(error.message, room)
    if error.cause is not None and (cause := shortened_error(error.cause, limit_bytes)) is not error.cause:
        changes["cause"] = cause
    return _with(error, **changes) if changes else error


def truncated(text: str, room_bytes: int) -> str:
    """The beginning of a text, with a mark that tells how long it was; together they fit, so it is cut only once."""
    mark = f" … (cut, {len(text)} characters)"
    room = room_bytes - len(msgspec.json.encode(mark))
    kept = text[:room]
    while (size := len(msgspec.json.encode(kept))) > room:
        # Encoded text may be longer than its characters, by escapes and UTF-8. Cut in proportion, and look again: a few
        # rounds at most, where a search character by character would be quadratic.
        kept = kept[: len(kept) * room // (size + 1)]
    return kept + mark


def capped_outcome(outcome: Outcome) -> Outcome:
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


def refuse_large_writes(writes: dict[str, Any]) -> None:
    """ToolError `result.too_large` for variables that are too large for a report."""
    if all(not value for value in writes.values()) or fits(writes, MAX_WRITES_BYTES):
        return
    most = f"{MAX_WRITES_BYTES >> 20} MiB"
    message = f"a policy writes at most {most} to variables, and this is more: later steps can read the result itself"
    raise ToolError("result.too_large", message)


def too_large() -> Error:
    most = f"{MAX_RESULT_BYTES >> 20} MiB"
    return Error(kind="result.too_large", message=f"the value has more than {most}: narrow it, or take it in pieces")


def _text_limit(limit_bytes: int, share: int) -> int:
    """The limit of one text: a share of that of the event, which has one output at most and a few errors with causes.
    With `reference_first` the default limit counts (RES-04)."""
    return max((limit_bytes if limit_bytes >= 0 else MAX_PAYLOAD_BYTES) // share, MIN_TEXT_BYTES)


def _short_errors(record: _Record, limit_bytes: int) -> _Record:
    """The record with every error in it shortened, at any depth."""
    changes = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        new = _shortened_value(value, limit_bytes)
        if new is not value:
            changes[name] = new
    return _with(record, **changes) if changes else record


def _shortened_value(value: Any, limit_bytes: int) -> Any:
    match value:
        case Error():
            return shortened_error(value, limit_bytes)
        case msgspec.Struct():
            return _short_errors(value, limit_bytes)
        case tuple() if value:
            new = tuple(_shortened_value(one, limit_bytes) for one in value)
            return value if all(a is b for a, b in zip(value, new, strict=True)) else new
        case _:
            return value


def _with(record: _Record, **changes: Any) -> _Record:
    return msgspec.structs.replace(record, **changes)


# How much may travel inside an event (RES-03, RES-04).
MAX_PAYLOAD_BYTES = 65_536  # O-33
MAX_INLINE_BYTES = 1_048_576  # at most this, whatever a playbook says: a report may have several of them

Keep = Callable[[Any], Reference]


def no_results_store(value: Any) -> Reference:
    """The `keep` of a caller without a results store."""
    raise AssertionError("there is no results store here")


def inline_bytes(net: Net) -> int:
    """The largest size of data inside an event, as the net says, and 1 MiB at most."""
    return min(int(net.executor.limits.get("max_payload_bytes", MAX_PAYLOAD_BYTES)), MAX_INLINE_BYTES)


def max_payload_bytes(net: Net) -> int:
    """The same for results: -1, so that every result is stored apart, with `reference_first` (RES-04)."""
    return -1 if net.executor.reference_first else inline_bytes(net)


def fits(value: Any, limit_bytes: int) -> bool:
    """Whether a value is small enough to be inside an event."""
    if value is None or isinstance(value, bool | int | float):
        return limit_bytes >= 0 or value is None
    if isinstance(value, str) and len(value) * 6 + 2 <= limit_bytes:  # no encoding is longer
        return True
    return len(msgspec.json.encode(value)) <= limit_bytes
