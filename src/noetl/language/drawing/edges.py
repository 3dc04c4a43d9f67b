"""Every way a token can take from one step to another, whatever construct of whatever dialect makes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec

from noetl.net.net import Net, Transition
from noetl.net.routing import Arc, Mode, Router
from noetl.net.v2_case_rules import CaseRule
from noetl.templates.values import Authored

UNKNOWN = "?"  # where a computed target leads that cannot be told before it is taken
_FAILURES = ("step.failed", "call.error", "timeout", "message.timeout")


class Manner(StrEnum):
    PLAIN = "plain"
    FAILURE = "failure"  # taken when something went wrong
    COMPUTED = "computed"  # the target is a template


class Edge(msgspec.Struct, frozen=True):
    source: str
    target: str
    label: str = ""
    manner: Manner = Manner.PLAIN
    guard: str = ""  # the condition in full; the label may be cut


def ways_of(net: Net) -> tuple[Edge, ...]:
    """All ways in YAML order, each once."""
    return tuple(dict.fromkeys(way for step in net.transitions for way in _from(step)))


def _from(step: Transition) -> Iterator[Edge]:
    if step.case is not None:
        for rule in step.case.rules:
            yield from _by_rule(step.name, rule)
    if step.router is not None:
        yield from _by_router(step.name, step.router)
    if step.timeout is not None and step.timeout.alternative:
        yield Edge(step.name, step.timeout.alternative, f"after {words(step.timeout.duration)}", Manner.FAILURE)


def _by_router(source: str, router: Router) -> Iterator[Edge]:
    guarded = False
    for arc in router.arcs:
        label = guard_words(arc.when)
        if arc.when is None and guarded and router.mode is Mode.EXCLUSIVE:
            label = "else"
        guarded = guarded or arc.when is not None
        yield from _by_arc(source, arc, label, guard_words(arc.when, WHOLE))


def _by_rule(source: str, rule: CaseRule) -> Iterator[Edge]:
    label = guard_words(rule.when) or "else"
    for action in rule.actions:
        for arc in action.transition:
            extra = f"{label}, after {words(action.delay)}" if action.delay is not None else label
            yield from _by_arc(source, arc, extra, guard_words(rule.when, WHOLE))


def _by_arc(source: str, arc: Arc, label: str, guard: str) -> Iterator[Edge]:
    if arc.tokens > 1:
        label = f"{label} ×{arc.tokens}".strip()
    if arc.delay is not None:
        label = f"{label}, after {words(arc.delay)}".removeprefix(", ")
    if arc.cancel:
        label = f"{label}, cancels {'the execution' if arc.cancel == ('*',) else ', '.join(arc.cancel)}"
    if arc.computed is not None:
        for target in arc.candidates or (UNKNOWN,):
            yield Edge(source, target, label.removeprefix(", "), Manner.COMPUTED, guard)
    else:
        manner = Manner.FAILURE if any(name in guard for name in _FAILURES) else Manner.PLAIN
        yield Edge(source, arc.target, label.removeprefix(", "), manner, guard)


# Templates and numbers as the few words that fit on a line of a drawing.

# Characters of a label; the whole guard is in `guard`, for a tool tip.
LONGEST = 44
WHOLE = 10_000  # long enough for any text

_WHOLE = re.compile(r"\{\{-?\s*(?P<inside>(?:(?!\{\{|\}\}).)*?)\s*-?\}\}\Z", re.DOTALL)
_EVENT = re.compile(r"""event\.name\s*==\s*(?P<quote>['"])(?P<name>[\w.]+)(?P=quote)""")
_EVENTS = re.compile(r"event\.name\s+in\s+[\[(](?P<names>[^\])]*)[\])]")


def words(value: Authored | Any, longest: int = LONGEST) -> str:
    """An authored value on one line: `{{ workload.items }}` is workload.items."""
    data = value.data if isinstance(value, Authored) else value
    text = data if isinstance(data, str) else _literal(data)
    whole = _WHOLE.match(text.strip())
    return shortened(whole["inside"] if whole else text, longest)


def _literal(data: Any) -> str:
    match data:
        case None:
            return "nothing"
        case bool():
            return "true" if data else "false"
        case list() | tuple():
            return "[" + ", ".join(words(item, 12) for item in data) + "]"
        case dict():
            return ", ".join(f"{key}: {words(item, 16)}" for key, item in data.items())
        case _:
            return str(data)


def guard_words(when: Authored | None, longest: int = LONGEST) -> str:
    """A guard: `{{ event.name == 'loop.done' }}` is loop.done."""
    if when is None:
        return ""
    text = words(when, WHOLE)
    text = _EVENT.sub(lambda found: found["name"], text)
    text = _EVENTS.sub(lambda found: " or ".join(re.findall(r"[\w.]+", found["names"])), text)
    return shortened(text, longest)


def shortened(text: str, longest: int = LONGEST) -> str:
    """One line, no longer than `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"
