"""Report writer: masks secrets in what a worker reports, and then stores large values apart (KEY-06, RES-01).

The pipeline itself continues with the unmasked result: a task may use a secret that the task before it looked up
(TOOL-09). Only the reported copy is masked.
"""

from __future__ import annotations

from typing import Any

from noetl.base.errors import ToolError
from noetl.base.redaction import Mask
from noetl.engine.pipeline.payloads import MAX_RESULT_BYTES, fits, fitted_entry, too_large
from noetl.events.outcomes import Reference
from noetl.events.secret_materials import Record, masked, with_changes
from noetl.events.steps import CaseWaiting, StepDone, StepFailed
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.worker.control_plane import ControlPlane


class ReportWriter:
    def __init__(self, mask: Mask, max_payload_bytes: int, control_plane: ControlPlane, execution_id: str) -> None:
        self._mask, self._max_payload_bytes = mask, max_payload_bytes
        self._control_plane, self._execution_id = control_plane, execution_id

    def _keep_as_is(self, value: Any) -> Reference:
        return self._control_plane.keep(value, self._execution_id)

    def keep(self, value: Any) -> Reference:
        """Store a value for a tool, masked like any other. Raises ToolError `result.too_large`."""
        if not fits(value, MAX_RESULT_BYTES):
            error = too_large()
            raise ToolError(error.kind, error.message)
        return self._keep_as_is(self._mask.redactor.data(value))

    def processed(self, raw: TaskProcessed) -> tuple[TaskProcessed, TaskProcessed]:
        """The record of a task run, and the result with which its pipeline continues: the same, unless it has a
        secret."""
        # Masked before large values are stored apart, so that those are stored without secrets too.
        clean = masked(raw, self._mask.redactor)
        recorded = fitted_entry(clean, self._max_payload_bytes, self._keep_as_is)
        return recorded, recorded if clean is raw else raw

    def started(self, started: TaskStarted, args: Any) -> TaskStarted:
        """The start of a task with its rendered args (V2C-26)."""
        if not isinstance(args, dict):
            return started
        clean = self._mask.redactor.data(args)
        fitting = fits(clean, self._max_payload_bytes)
        args_field = {"args": clean} if fitting else {"args_ref": self._keep_as_is(clean)}
        return with_changes(started, args_field)

    def fitted(self, done: StepDone) -> StepDone:
        """The end of a step whose result was assembled from those of tasks, with a large result stored apart."""
        return fitted_entry(self.masked(done), self._max_payload_bytes, self._keep_as_is)

    def text(self, text: str) -> str:
        """A text without secrets, for a tool that cuts or changes it."""
        return self._mask.redactor.text(text)

    def holds_secret(self, value: Any) -> bool:
        """Whether plain data contains a secret."""
        return self._mask.redactor.data(value) is not value

    def masked(self, record: Record) -> Record:
        return masked(record, self._mask.redactor)

    def ended(self, end: StepDone | StepFailed | CaseWaiting) -> StepDone | StepFailed | CaseWaiting:
        """The end of a pipeline in its recorded form."""
        return fitted_entry(masked(end, self._mask.redactor), self._max_payload_bytes, self._keep_as_is)
