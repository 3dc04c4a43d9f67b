"""Egress: what a worker may report of a task. Secrets are masked, then what is large is stored apart (KEY-06, RES-01).

The pipeline itself goes on with what the tool really gave: a task may use the secret that the one before it looked up
(TOOL-09). Only the copy that leaves is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.records.events import CaseWaiting, StepDone, StepFailed, TaskProcessed
from noetl.records.references import Reference
from noetl.worker.masking import Record, masked, with_changes
from noetl.worker.masks import Mask
from noetl.worker.payloads import fitted, fitted_result


class Egress:
    def __init__(self, mask: Mask, max_payload_bytes: int, keep: Callable[[Any], Reference]) -> None:
        self._mask, self._max_payload_bytes, self._keep_as_is = mask, max_payload_bytes, keep

    def keep(self, value: Any) -> Reference:
        """Store a value for a tool; it leaves the worker like any other."""
        return self._keep_as_is(self._mask.redactor.data(value))

    def processed(self, raw: TaskProcessed) -> tuple[TaskProcessed, TaskProcessed]:
        """What is recorded of a task run, and what its pipeline goes on with: the same, unless a secret is in it."""
        clean = masked(raw, self._mask.redactor)
        outcome = fitted(clean.outcome, self._max_payload_bytes, self._keep_as_is)
        recorded = clean if outcome is clean.outcome else with_changes(clean, {"outcome": outcome})
        return recorded, recorded if clean is raw else raw

    def fitted(self, done: StepDone) -> StepDone:
        """A result that no task gave, but was put together: a large one is stored like any other."""
        result = fitted_result(self.masked(done).result, self._max_payload_bytes, self._keep_as_is)
        return StepDone(result=result)

    def masked(self, record: Record) -> Record:
        return masked(record, self._mask.redactor)

    def ended(self, end: StepDone | StepFailed | CaseWaiting) -> StepDone | StepFailed | CaseWaiting:
        """How a pipeline ended, as it is recorded."""
        clean = masked(end, self._mask.redactor)
        if clean is end or isinstance(clean, StepFailed | CaseWaiting):
            return clean
        return StepDone(result=fitted_result(clean.result, self._max_payload_bytes, self._keep_as_is))
