"""Patching `ctx`: one event per write, holding only the written keys (SCOPE-03, SCOPE-07)."""

from __future__ import annotations

from typing import Any

from noetl.base.errors import TemplateError
from noetl.engine.decision import Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.pipeline.patches import written
from noetl.events.steps import CtxPatched


def patch_ctx(
    draft: Draft, execution: Execution, run: StepRun, patch: Any, *, parent_id: str | None = None
) -> dict[str, Any]:
    """Record `patch` and give the `ctx` that comes of it."""
    if not isinstance(patch, dict):
        raise TemplateError(f"set_ctx must be a mapping, this gave {type(patch).__name__}")
    if not patch:
        return execution.ctx
    # The events that wrote these keys before, so that a reader of the log can follow a value back (SCOPE-07).
    previous = {key: execution.written_by[key] for key in patch if key in execution.written_by}
    draft.add(CtxPatched(patch=patch, previous=previous), run=run, parent_id=parent_id)
    return written(execution.ctx, patch)
