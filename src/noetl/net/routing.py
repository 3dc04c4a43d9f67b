"""Routers, arcs, joins, admission and the case rules of v2-case: how tokens move between transitions."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from noetl.net.task import Repeat, Task, _Data
from noetl.templates.values import Authored


class Mode(StrEnum):
    EXCLUSIVE = "exclusive"
    INCLUSIVE = "inclusive"


class Arc(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """A way to another step."""

    target: str = ""
    when: Authored | None = None  # None: unguarded
    args: Authored | None = None
    set_ctx: Authored | None = None  # written when the arc fires, before its token is made
    # Of v2-case: a template in place of `target`, which is empty then. `candidates` are the targets known from the
    # template, if any; else a proof takes every step for one (C-27).
    computed: Authored | None = None
    candidates: tuple[str, ...] = ()
    delay: Authored | None = None  # before the token is enqueued (ADV-05)
    priority: Authored | None = None  # of its orders; a higher one is claimed first (ADV-03)
    dedupe: Authored | None = None  # a key, or {key, window}: enqueued once (ADV-04)
    partition: Authored | None = None  # tokens with equal keys run their step one at a time
    tokens: int = 1  # how many are made; two or more open a fork group
    cancel: tuple[str, ...] = ()  # steps, or ("*",) for the whole execution
    trigger_compensation: bool = False


class Router(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """`unguarded_always`: arcs without a guard take failures too (ROUTE-05)."""

    arcs: tuple[Arc, ...] = ()
    mode: Mode = Mode.EXCLUSIVE
    unguarded_always: bool = False
    policy: dict[str, Any] = {}


class AdmitRule(_Data, frozen=True, kw_only=True, omit_defaults=True):
    when: Authored | None = None
    allow: bool = True
    park: bool = False
    set_token: Authored | None = None


class Admission(_Data, frozen=True, kw_only=True, omit_defaults=True):
    rules: tuple[AdmitRule, ...] = ()
    mode: Mode = Mode.EXCLUSIVE


class JoinMode(StrEnum):
    ALL = "all"
    ANY = "any"
    COUNT = "count"
    ACTIVE = "active"


class Join(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """How tokens of one fork group meet (O-01)."""

    # all: every token of the group that is left; any: the first; count: so many; active: all that can still come.
    mode: JoinMode = JoinMode.ALL
    count: int | None = None
    rest: str = "ignore"  # ignore | block | cancel


# The case rules of v2-case: the actions on the events of the step itself (V2C-06 to V2C-15).


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
