"""What a worker may report of a task. Secrets are masked, then what is large is stored apart (KEY-06, RES-01).

The pipeline itself goes on with what the tool really gave: a task may use the secret that the one before it looked up
(TOOL-09). Only the copy that leaves is masked.
"""

from __future__ import annotations

from typing import Any

from noetl.base.errors import ToolError
from noetl.base.redaction import Mask
from noetl.engine.pipeline.payloads import MAX_RESULT_BYTES, fits, fitted_entry, too_large
from noetl.events.masking import Record, masked, with_changes
from noetl.events.outcomes import Reference
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.v2_case_runs import CaseWaiting
from noetl.worker.control_plane import ControlPlane


class ReportWriter:
    def __init__(self, mask: Mask, max_payload_bytes: int, control_plane: ControlPlane, execution_id: str) -> None:
        self._mask, self._max_payload_bytes = mask, max_payload_bytes
        self._control_plane, self._execution_id = control_plane, execution_id

    def _keep_as_is(self, value: Any) -> Reference:
        return self._control_plane.keep(value, self._execution_id)

    def keep(self, value: Any) -> Reference:
        """Store a value for a tool; it leaves the worker like any other. ToolError `result.too_large`."""
        if not fits(value, MAX_RESULT_BYTES):
            error = too_large()
            raise ToolError(error.kind, error.message)
        return self._keep_as_is(self._mask.redactor.data(value))

    def processed(self, raw: TaskProcessed) -> tuple[TaskProcessed, TaskProcessed]:
        """What is recorded of a task run, and what its pipeline goes on with: the same, unless a secret is in it."""
        clean = masked(raw, self._mask.redactor)
        recorded = fitted_entry(clean, self._max_payload_bytes, self._keep_as_is)
        return recorded, recorded if clean is raw else raw

    def started(self, started: TaskStarted, args: Any) -> TaskStarted:
        """The start of a task with its rendered args (V2C-26)."""
        if not isinstance(args, dict):
            return started
        clean = self._mask.redactor.data(args)
        fitting = fits(clean, self._max_payload_bytes)
        told = {"args": clean} if fitting else {"args_ref": self._keep_as_is(clean)}
        return with_changes(started, told)

    def fitted(self, done: StepDone) -> StepDone:
        """A result that no task gave, but was put together: a large one is stored like any other."""
        return fitted_entry(self.masked(done), self._max_payload_bytes, self._keep_as_is)

    def text(self, text: str) -> str:
        """A text as it may be told, for a tool that changes it before it tells of it."""
        return self._mask.redactor.text(text)

    def holds_secret(self, value: Any) -> bool:
        """Whether something of this plain data is to be masked."""
        return self._mask.redactor.data(value) is not value

    def masked(self, record: Record) -> Record:
        return masked(record, self._mask.redactor)

    def ended(self, end: StepDone | StepFailed | CaseWaiting) -> StepDone | StepFailed | CaseWaiting:
        """How a pipeline ended, as it is recorded."""
        return fitted_entry(masked(end, self._mask.redactor), self._max_payload_bytes, self._keep_as_is)
