"""The result of a step as its author wants it kept: `result.store` and `result.output_select` (design.md §5).

Who asks for storing has a reference, however small the result is; the fields that are selected stay inline beside it.
"""

from __future__ import annotations

import msgspec

from noetl.engine.pipeline.patches import at_path
from noetl.engine.pipeline.payloads import MAX_PAYLOAD_BYTES, Keep, fits, stored_apart
from noetl.engine.pipeline.pipeline_scope import Load
from noetl.events.outcomes import TaskResult
from noetl.net.net import StepResult


def kept_as_wanted(
    result: TaskResult, wanted: StepResult | None, load: Load, keep: Keep, max_payload_bytes: int
) -> TaskResult:
    """The result of a step that has succeeded, stored if that was asked for, with the fields its step selects."""
    value = result.result
    if not asks_for_storing(wanted) or result.ref is not None or value is None:
        return with_fields(result, wanted, load, max_payload_bytes)
    return with_fields(stored_apart(result, keep), wanted, lambda _: value, max_payload_bytes)  # it is at hand still


def asks_for_storing(wanted: StepResult | None) -> bool:
    return wanted is not None and wanted.store is not None


def with_fields(result: TaskResult, wanted: StepResult | None, load: Load, max_payload_bytes: int) -> TaskResult:
    """The result with the fields its step selects, each under the last name of its path. What is not there, or is
    large itself, stays with the reference."""
    if wanted is None or not wanted.output_select or result.ref is None:
        return result
    full = load(result.ref)
    room = max_payload_bytes if max_payload_bytes > 0 else MAX_PAYLOAD_BYTES  # where references come first (RES-04)
    payload = full["data"] if result.wrapped and isinstance(full, dict) and "data" in full else full
    inline = {}
    for path in wanted.output_select:
        value = at_path(payload, path)
        value = at_path(full, path) if value is None else value
        if value is not None and fits(value, room):
            inline[path.rpartition(".")[2]] = value
    return msgspec.structs.replace(result, inline=inline)
