"""Routers, arcs, joins and admission: how tokens move between transitions."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from noetl.net.task import _Data
from noetl.templates.authored import Authored


class Mode(StrEnum):
    EXCLUSIVE = "exclusive"
    INCLUSIVE = "inclusive"


class Arc(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """A way to `target`. `when` None: unguarded. `computed` (v2-case) stands in for `target` when set; `target` is
    then empty and `candidates` lists the targets that could be told from the template, if any (C-27)."""

    target: str = ""
    when: Authored | None = None
    args: Authored | None = None
    set_ctx: Authored | None = None  # written when the arc fires, before its token is made
    computed: Authored | None = None
    candidates: tuple[str, ...] = ()
    delay: Authored | None = None
    priority: Authored | None = None
    dedupe: Authored | None = None
    partition: Authored | None = None
    tokens: int = 1
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

    mode: JoinMode = JoinMode.ALL
    count: int | None = None
    rest: str = "ignore"  # ignore | block | cancel
