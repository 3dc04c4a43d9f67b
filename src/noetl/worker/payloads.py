"""Payloads: what is too large for an event is stored first and travels as a reference (RES-01, RES-03, RES-04)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.pipeline.limits import fits
from noetl.records.outcomes import Error, Outcome, TaskResult
from noetl.records.references import Reference

_CUT = " … (cut)"


def fitted(outcome: Outcome, limit_bytes: int, keep: Callable[[Any], Reference]) -> Outcome:
    """The outcome as it may be recorded: a large result by reference, a large error shortened."""
    if outcome.ok:
        if fits(outcome.result, limit_bytes):
            return outcome
        return msgspec.structs.replace(outcome, result=None, ref=keep(outcome.result))
    assert outcome.error is not None
    room = max(limit_bytes, 1_000)
    if len(msgspec.json.encode(outcome.error)) <= room:
        return outcome
    return msgspec.structs.replace(outcome, error=_shortened(outcome.error, room))


def fitted_result(result: TaskResult, limit_bytes: int, keep: Callable[[Any], Reference]) -> TaskResult:
    """The same for the result of a step."""
    if fits(result.result, limit_bytes):
        return result
    return msgspec.structs.replace(result, result=None, ref=keep(result.result))


def _shortened(error: Error, room: int) -> Error:
    message = error.message[: room // 4] + _CUT if len(error.message) > room // 4 else error.message
    return msgspec.structs.replace(error, message=message, details=None, cause=None)
