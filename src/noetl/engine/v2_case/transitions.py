"""Transitions of case rules: their targets and args, rendered once, when they are taken (V2C-12, V2C-25, V2C-26)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.base.durations import seconds
from noetl.base.errors import TemplateError, ToolError
from noetl.engine.v2_case.parts import BrokenCase
from noetl.events.cases import Chosen, Taken
from noetl.net.case import Action
from noetl.net.routing import Arc
from noetl.templates.authored import Authored
from noetl.templates.render import render
from noetl.templates.scope import Scope

NO_TARGET = "route.target"


def taken_transitions(
    action: Action, chosen: Chosen, scope: Scope, *, steps: frozenset[str], now: float
) -> tuple[Taken, ...]:
    """Where the transition leads. Several targets fork (C-09)."""
    where = f"next of case rule {chosen.rule}"
    try:
        return tuple(
            Taken(
                rule=chosen.rule,
                action=chosen.action,
                step=target_of(arc, scope, steps.__contains__, now),
                args=_args(arc, scope, now),
                delay_s=_delay(arc.delay or action.delay, scope, now),
            )
            for arc in action.transition
        )
    except (TemplateError, ToolError) as problem:
        raise BrokenCase(where, problem) from None


def target_of(arc: Arc, scope: Scope, is_step: Callable[[str], bool], now: float) -> str:
    """The step an arc leads to. ToolError when a computed one is none (V2C-25)."""
    if arc.computed is None:
        return arc.target
    target = render(arc.computed, scope, now=now)
    if not isinstance(target, str) or not is_step(target):
        shown = f'"{target}"' if isinstance(target, str) else "no name"
        raise ToolError(NO_TARGET, f"the target is {shown}, which is not a step of this playbook")
    return target


def _delay(written: Authored | None, scope: Scope, now: float) -> float:
    """How long the token is held back (V2C-12)."""
    if written is None:
        return 0.0
    try:
        return seconds(render(written, scope, now=now))
    except ValueError as problem:
        raise TemplateError(f"delay: {problem}") from None


def _args(arc: Arc, scope: Scope, now: float) -> dict[str, Any]:
    args = render(arc.args, scope, now=now) if arc.args is not None else None
    if args is not None and not isinstance(args, dict):
        raise TemplateError(f"args must be a mapping, this gave {type(args).__name__}")
    return args or {}
