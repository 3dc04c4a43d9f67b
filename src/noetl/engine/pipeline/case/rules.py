"""Rules of a case: which of them an event makes run (V2C-06, V2C-07, TPL-04, EVT-10).

All conditions of a pass are evaluated before any of its actions runs. A rule that has run is not asked again.
"""

from __future__ import annotations

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.base.source import is_template
from noetl.engine.pipeline.case.errors import BrokenCase
from noetl.events.cases import CasePosition
from noetl.events.legacy_names import ENTERING
from noetl.net.case import Case, CaseRule
from noetl.templates.expression import parse
from noetl.templates.render import holds
from noetl.templates.scope import Scope

FIRED, NOT_EVALUATED = "fired", "not_evaluated"


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation of the rules: each one's value, the ones that run, and what is kept of cached conditions."""

    values: tuple[bool | str, ...]
    matching: tuple[int, ...]
    cached: dict[int, bool]


def evaluate(case: Case, position: CasePosition, scope: Scope, *, now: float, only: frozenset[int] | None) -> Pass:
    """The rules that match, in order: the first one, or all of them when the case is inclusive."""
    values: list[bool | str] = []
    matching: list[int] = []
    cached = dict(position.cached)
    for index, rule in enumerate(case.rules):
        if index in position.fired:
            values.append(FIRED)
        elif rule.when is None or (only is not None and index not in only) or (matching and not case.inclusive):
            values.append(NOT_EVALUATED)
        else:
            values.append(_value(index, rule, scope, now, cached))
            matching += [index] if values[-1] else []
    return Pass(values=tuple(values), matching=tuple(matching), cached=cached)


def _value(index: int, rule: CaseRule, scope: Scope, now: float, cached: dict[int, bool]) -> bool:
    if rule.cache and index in cached:
        return cached[index]
    assert rule.when is not None
    try:
        value = holds(rule.when, scope, now=now, strict=rule.strict)
    except (TemplateError, ToolError) as problem:
        raise BrokenCase(f"when of case rule {index}", problem) from None
    if rule.cache:
        cached[index] = value
    return value


def entering(case: Case, *, has_call: bool) -> frozenset[int] | None:
    """The rules that see `step.enter`: all of a step without a call, else those that name it (V2C-06)."""
    return frozenset(i for i, rule in enumerate(case.rules) if _names_entry(rule)) if has_call else None


def _names_entry(rule: CaseRule) -> bool:
    return not ENTERING.isdisjoint(named(rule))


def named(rule: CaseRule) -> frozenset[str]:
    """The names that a rule compares `event.name` with."""
    when = rule.when.data if rule.when is not None else None
    if not isinstance(when, str) or not is_template(when):
        return frozenset()
    tests = (test for test in parse(when).comparisons if test.root == "event" and test.path == ("name",))
    return frozenset(value for test in tests for value in test.values if isinstance(value, str))


def else_of(case: Case) -> int | None:
    return next((index for index, rule in enumerate(case.rules) if rule.when is None), None)
