"""Case rules of v2-case steps, compiled: what happens on the step's own events (V2C-06…15)."""

from __future__ import annotations

from noetl.net.routing import Arc
from noetl.net.task import Repeat, Task, _Data
from noetl.templates.values import Authored


class Action(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """Exactly one of the three is given: a task to run, variables to set, or a transition to take."""

    task: Task | None = None
    sink: bool = False  # the task is the `sink` of a mapping (C-07)
    set_ctx: Authored | None = None
    transition: tuple[Arc, ...] = ()
    delay: Authored | None = None
    guard: Authored | None = None
    trigger_compensation: bool = False


class CaseRule(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """`when` None for else."""

    when: Authored | None = None
    actions: tuple[Action, ...] = ()
    strict: bool = False
    cache: bool = False
    repeat: tuple[Repeat, ...] = ()


class Case(_Data, frozen=True, kw_only=True, omit_defaults=True):
    rules: tuple[CaseRule, ...] = ()
    inclusive: bool = False
    on_event: bool = False
