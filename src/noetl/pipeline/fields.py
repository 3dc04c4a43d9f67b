"""Fields of a large result that stay inline beside its reference: `result.output_select` of a step (DESIGN §5)."""

from __future__ import annotations

import msgspec

from noetl.net.net import StepResult
from noetl.pipeline.dotted import at_path
from noetl.pipeline.limits import MAX_PAYLOAD_BYTES, fits
from noetl.pipeline.surroundings import Load
from noetl.records.outcomes import TaskResult


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
