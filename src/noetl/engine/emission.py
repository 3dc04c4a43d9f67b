"""Emission: events that authors name themselves, told at the end of a step (EVT-09). They are never boundary events."""

from __future__ import annotations

from typing import Any

from noetl.engine.decision import Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.plan import Plan
from noetl.engine.scopes import arc_scope
from noetl.events.control import Emitted
from noetl.net.net import Transition
from noetl.templates.render import holds, render


def emit(
    plan: Plan, draft: Draft, execution: Execution, run: StepRun, step: Transition, ctx: dict[str, Any], at: float
) -> None:
    """Tell each event whose condition holds, in the order they are written."""
    if not step.emit:
        return
    assert run.ended is not None
    scope = arc_scope(plan, execution, run, run.ended, ctx=ctx)
    for one in step.emit:
        if one.when is None or holds(one.when, scope, now=at):
            data = render(one.data, scope, now=at) if one.data is not None else None
            draft.add(Emitted(emitted=one.name, data=data), run=run)
