"""Firings of v2-case steps: transitions decided by case rules, else the `next` shortcut (V2C-04, 06…08, 13, 15, 23).

A run sees several events of its own (`step.enter`, `call.done` or `call.error`, `step.exit`); whichever rule decides a
transition first ends the evaluation. This module knows only whether a rule can or must decide.
"""

from __future__ import annotations

from noetl.events.legacy_names import ENTERING
from noetl.language.proving import guards
from noetl.language.proving.firings import Targets
from noetl.language.proving.graph import FAILED, Firing, StepEnding, boundary_events
from noetl.net.debug import arc_address, transition_address
from noetl.net.net import Transition
from noetl.net.routing import Action, Case, CaseRule

Transitions = list[tuple[CaseRule, Action, tuple[StepEnding, ...]]]


def case_firings(step: Transition, case: Case, targets: Targets) -> list[Firing]:
    """How a run of a step with case rules can end."""
    transitions = _transitions(step, case, targets)
    # The step listens to events of any name until a transition is taken (V2C-13).
    if case.on_event:
        return [Firing("case", ways) for _, _, ways in transitions]
    # Each iteration decides, and the distinct transitions are taken after the loop (V2C-23).
    if step.loop is not None:
        decided = tuple(dict.fromkeys(way for _, _, ways in transitions for way in ways))
        together = [Firing("loop.done", (), decided)] if decided else []
        return together + _shortcut(step, "loop.done", targets)
    found: list[Firing] = []
    for event in boundary_events(step):
        # Rules are evaluated on entry of the step, too: a rule that matches then may decide before the call.
        seen = (*ENTERING, event)
        certain = _always_decides(case)
        for rule, action, ways in transitions:
            truths = _rule_truths(rule, seen)
            if True in truths or None in truths:
                found.append(Firing(event, ways))
            certain = certain or (True in truths and action.guard is None)
        if not certain:
            found += _shortcut(step, event, targets)
    return found


def _transitions(step: Transition, case: Case, targets: Targets) -> Transitions:
    found: Transitions = []
    for at, rule in enumerate(case.rules):
        for position, action in enumerate(rule.actions):
            if not action.transition:
                continue
            address = transition_address(step.name, at, position)
            ways = tuple(targets.way(address, index, arc) for index, arc in enumerate(action.transition))
            found.append((rule, action, ways))
    return found


def _always_decides(case: Case) -> bool:
    """Whether every rule, an else among them, takes a transition: then one of them always does."""
    deciding = [any(action.transition and action.guard is None for action in rule.actions) for rule in case.rules]
    return all(deciding) and any(rule.when is None for rule in case.rules)


def _rule_truths(rule: CaseRule, events: tuple[str, ...]) -> list[bool | None]:
    # `else` depends on the guards of the other rules, which are over-approximated.
    if rule.when is None:
        return [None]
    return [guards.truth(rule.when, event) for event in events]


def _shortcut(step: Transition, event: str, targets: Targets) -> list[Firing]:
    """The step-level `next`, a fork when it has several targets; failures take it only with on_error: continue."""
    if event == FAILED and not step.on_error_continue:
        return []
    arcs = step.router.arcs if step.router else ()
    ways = tuple(targets.way(arc_address(step.name, at), at, arc) for at, arc in enumerate(arcs))
    return [Firing(event, ways)]
