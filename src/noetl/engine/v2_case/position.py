"""Where a walk is, what it may read there, and what it has decided so far."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.pipeline.scopes import PipelineScope, task_scope
from noetl.engine.v2_case import names, parts
from noetl.events.orders import Position
from noetl.events.v2_case_positions import CasePosition, Note
from noetl.net.net import Transition
from noetl.net.task import Task
from noetl.templates.scope import Scope

DONE, FAILED, ENTER, EXIT = "call.done", "call.error", "step.enter", "step.exit"


class CaseSite(msgspec.Struct, frozen=True, kw_only=True):
    """The data that a walk may read besides its position. `steps` are the names a transition may lead to; `spread`,
    from 0 to 1, places delays within their jitter."""

    step: Transition
    steps: frozenset[str]
    around: PipelineScope
    now: float
    spread: float = 0.0
    looped: bool = False


class CaseStanding:
    """`position`, `patch`, `notes` and `delay_s` are what the walk decides; nothing outside of it is changed."""

    def __init__(self, site: CaseSite, position: Position) -> None:
        self.step, self.site, self.around = site.step, site, site.around
        self.position = position
        self.case = position.case or CasePosition()
        self.call = parts.call_of(site.step)
        self.patch: dict[str, Any] = {}
        self.notes: list[Note] = []
        self.delay_s = 0.0
        self.keeps_page = False

    @property
    def _succeeded(self) -> bool:
        result = self.position.results.get(self.case.result_of or "")
        return self.case.error is None and (result is None or result.error is None)

    def _scope(self, own: dict[str, Any]) -> Scope:
        task = self.call or Task(name=self.step.name, kind="noop")
        return task_scope(names.with_names(self.around, **own), self.position, task)

    def _change(self, **fields: Any) -> None:
        self.case = msgspec.structs.replace(self.case, **fields)
        self.position = msgspec.structs.replace(self.position, case=self.case)

    def _read(self, **fields: Any) -> None:
        self.position = msgspec.structs.replace(self.position, **fields)
