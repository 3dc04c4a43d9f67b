"""Every way a token can take from one step to another, whatever construct of whatever dialect makes it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from noetl.language.drawing.short_text import WHOLE, guard_words, words
from noetl.net.case import CaseRule
from noetl.net.net import Net, Transition
from noetl.net.routing import Arc, Mode, Router

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
