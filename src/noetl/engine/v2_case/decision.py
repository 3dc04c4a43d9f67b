"""What a walk decided, in the shape that every pipeline's decisions have."""

from __future__ import annotations

from noetl.engine.v2_case.names import next_task
from noetl.engine.v2_case.walk import CaseWalk
from noetl.events.cases import CaseDecision
from noetl.events.tasks import Decided
from noetl.net.task import Directive


def decided(walk: CaseWalk, *, again: bool = False) -> Decided:
    """`again`: the task that just ran runs once more, as another attempt of the same visit."""
    case = walk.case
    following = next_task(walk.step, walk.position).name if case.at is not None else None
    failed = case.error if walk.is_over else None
    return Decided(
        rule="case",
        do=_directive(again, following is not None or walk.waits, failed is not None).value,
        next=following,
        delay_s=walk.delay_s,
        set_ctx=walk.patch,
        error=failed,
        case=CaseDecision(position=case, notes=tuple(walk.notes), keeps_page=walk.keeps_page),
    )


def _directive(again: bool, goes_on: bool, failed: bool) -> Directive:
    if again:
        return Directive.RETRY
    if goes_on:
        return Directive.CONTINUE
    return Directive.FAIL if failed else Directive.BREAK
