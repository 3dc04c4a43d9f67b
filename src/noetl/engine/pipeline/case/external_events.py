"""Which rules of a case may be met by an event that nothing inside an execution tells (V2C-13, MSG-06).

Somebody who listens for such an event waits for it, however long; who listens to the execution alone need not, once
nothing else in it is live. A rule that cannot be told apart without running it counts as asking for the outside.
"""

from __future__ import annotations

from typing import Any

from noetl.base.source import is_template
from noetl.engine.pipeline.case.rules import named
from noetl.events.legacy_names import is_system_name
from noetl.net.case import Case, CaseRule
from noetl.templates.expression import parse
from noetl.templates.logic import And, Compare, Const, Not, Or, Shape

BEGINNINGS = ("timer.", "message.", "signal.", "human.", "task.completed")  # of the names of such events

# What a rule reads of an event that has none of the names it tests: it is of no step, and never an error.
_OTHER = "\0some other name"
_KNOWN: dict[str | int, Any] = {"name": _OTHER, "step": "", "status": "success", "error": None}


def outside_rules(case: Case, emitted: frozenset[str]) -> frozenset[int]:
    """The rules that ask for an event of timers, messages, signals or people, under a name that no step emits, or
    under no certain name at all, so that somebody may inject it."""
    return frozenset(
        index
        for index, rule in enumerate(case.rules)
        if any(_is_outside(name, emitted) for name in named(rule)) or _takes_any(rule)
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
            return _tested(shape, _KNOWN[field])
        case _:
            return None


def _tested(test: Compare, value: Any) -> bool | None:
    match test.op:
        case "==" | "in":
            return value in test.values
        case "!=" | "not in":
            return value not in test.values
        case "truthy":
            return bool(value)
        case _:
            return None
