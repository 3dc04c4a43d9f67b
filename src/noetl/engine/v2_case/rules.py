"""Rules of a case: which of them an event makes run (V2C-06, V2C-07, TPL-04, EVT-10).

All conditions of a pass are evaluated before any of its actions runs. A rule that has run is not asked again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.diagnostics import is_template
from noetl.base.errors import TemplateError, ToolError
from noetl.engine.v2_case.parts import BrokenCase
from noetl.events.legacy_names import ENTERING, is_system_name
from noetl.events.v2_case_positions import CasePosition
from noetl.net.routing import Case, CaseRule
from noetl.templates.expression import parse
from noetl.templates.logic import And, Compare, Const, Not, Or, Shape
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
    return not ENTERING.isdisjoint(event_names_in(rule))


def event_names_in(rule: CaseRule) -> frozenset[str]:
    """The names that a rule compares `event.name` with."""
    when = rule.when.data if rule.when is not None else None
    if not isinstance(when, str) or not is_template(when):
        return frozenset()
    tests = (test for test in parse(when).comparisons if test.root == "event" and test.path == ("name",))
    return frozenset(value for test in tests for value in test.values if isinstance(value, str))


def else_of(case: Case) -> int | None:
    return next((index for index, rule in enumerate(case.rules) if rule.when is None), None)


# Which rules of a case may be met by an event that nothing inside an execution tells (V2C-13, MSG-06).

BEGINNINGS = ("timer.", "message.", "signal.", "human.", "task.completed")  # of the names of such events

# The event that a rule reads if an event has none of the tested names: it belongs to no step and is never an error. No
# name of an event can hold a NUL, so this is none that a rule compares with.
_OTHER = "\0some other name"
_KNOWN: dict[str | int, Any] = {"name": _OTHER, "step": "", "status": "success", "error": None}


def outside_rules(case: Case, emitted: frozenset[str]) -> frozenset[int]:
    """The rules that ask for an event of timers, messages, signals or people, under a name that no step emits, or
    under no certain name at all, so that it may be injected."""
    return frozenset(
        index
        for index, rule in enumerate(case.rules)
        if any(_is_outside(name, emitted) for name in event_names_in(rule)) or _takes_any(rule)
    )


def _is_outside(name: str, emitted: frozenset[str]) -> bool:
    return name.startswith(BEGINNINGS) or not (is_system_name(name) or name in emitted)


def _takes_any(rule: CaseRule) -> bool:
    """Whether it may hold for an event whose name it does not test: `{{ event.data.type == 'approval' }}`."""
    when = rule.when.data if rule.when is not None else None
    if not isinstance(when, str) or not is_template(when):
        return False
    template = parse(when)
    reads_event = any(read.root == "event" for read in template.references)
    return reads_event and _truth(template.shape) is not False


def _truth(shape: Shape) -> bool | None:
    """The value of a condition for such an event; None where it depends on more than is known of it."""
    match shape:
        case Const(value):
            return value
        case Not(part):
            inner = _truth(part)
            return None if inner is None else not inner
        case And(parts):
            values = {_truth(part) for part in parts}
            return False if False in values else None if None in values else True
        case Or(parts):
            values = {_truth(part) for part in parts}
            return True if True in values else None if None in values else False
        case Compare("event", (field, *_)) if field in _KNOWN:
            return _test_result(shape, _KNOWN[field])
        case _:
            return None


def _test_result(test: Compare, value: Any) -> bool | None:
    match test.op:
        case "==" | "in":
            return value in test.values
        case "!=" | "not in":
            return value not in test.values
        case "truthy":
            return bool(value)
        case _:
            return None
