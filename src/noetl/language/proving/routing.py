"""Routing: events that no arc takes, guards that can never decide, arcs and steps that can never fire (ADV-06).

Only what is certain is said: a guard on data may be meant to be false (ROUTE-07). That an unguarded arc hides the
ones behind it is the compiler's W_ARC_SHADOWED; that a name is no event of the step its W_EVENT_NEVER.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from noetl.language.proving import guards
from noetl.language.proving.firings import arc_truth
from noetl.language.proving.graph import FAILED, boundary_events
from noetl.language.proving.source_positions import PlacedFinding
from noetl.net.debug import arc_address, part_address, rule_address, step_address
from noetl.net.net import Net, Transition
from noetl.net.routing import Mode, Router
from noetl.net.task import Task
from noetl.templates.values import Authored


def routing_findings(net: Net) -> list[PlacedFinding]:
    """What is certainly wrong with the guards of `net`."""
    found: list[PlacedFinding] = []
    for step in net.transitions:
        found += _never_admitted(step)
        if step.router is not None and step.case is None:
            found += _constant_false(step, step.router)
            found += _unrouted(step, step.router)
            found += _overlapping(step, step.router)
        for task in step.tasks:
            found += _shadowed_rules(step, task)
    return found


def _never_admitted(step: Transition) -> Iterator[PlacedFinding]:
    admission = step.admission
    if admission is None or not admission.rules:
        return
    live = [rule for rule in admission.rules if rule.when is None or guards.truth(rule.when, None) is not False]
    if not any(rule.allow for rule in live):
        message = f'no token is ever admitted to step "{step.name}"'
        where = (part_address(step.name, "admission"), step_address(step.name))
        yield PlacedFinding("W_UNREACHABLE", where, message, "let a rule say allow: true, or remove the step")


def _constant_false(step: Transition, router: Router) -> Iterator[PlacedFinding]:
    for at, arc in enumerate(router.arcs):
        if arc.when is not None and guards.truth(arc.when, None) is False:
            message = f'this arc to "{arc.target}" can never fire: its guard is always false'
            hint = "correct its when, or remove the arc"
            yield PlacedFinding("W_UNREACHABLE", (arc_address(step.name, at),), message, hint)


def _unrouted(step: Transition, router: Router) -> Iterator[PlacedFinding]:
    if not router.arcs or _ends_a_saga(router):
        return
    for event in boundary_events(step):
        if event != FAILED and all(arc_truth(arc, event, router) is False for arc in router.arcs):
            message = f'no arc of step "{step.name}" takes "{event}", so its token ends here'
            hint = f'add an arc for "{event}", or one without when, if the workflow should go on'
            yield PlacedFinding(
                "W_EVENT_UNROUTED", (part_address(step.name, "next"), step_address(step.name)), message, hint
            )


def _ends_a_saga(router: Router) -> bool:
    """Failures lead to compensation and successes nowhere: the last step of a saga, done when it is done (SAGA-02)."""
    return all(arc.trigger_compensation and guards.truth(arc.when, "step.done") is False for arc in router.arcs)


def _overlapping(step: Transition, router: Router) -> Iterator[PlacedFinding]:
    if router.mode is not Mode.EXCLUSIVE:
        return
    earlier: list[Authored | None] = []
    for at, arc in enumerate(router.arcs):
        if arc.when is None:
            continue
        events = [event for event in boundary_events(step) if guards.truth(arc.when, event) is not False]
        if earlier and events and all(guards.implied(arc.when, earlier, event) for event in events):
            yield _never_decides(arc_address(step.name, at), "arcs")
        earlier.append(arc.when)


def _shadowed_rules(step: Transition, task: Task) -> Iterator[PlacedFinding]:
    """Policy rules are tried in order too (POL-01)."""
    earlier: list[Authored | None] = []
    for at, rule in enumerate(task.policy.rules if task.policy else ()):
        if rule.when is None:
            break
        if earlier and guards.truth(rule.when, None) is not False and _is_implied(rule.when, earlier):
            yield _never_decides(rule_address(step.name, task.name, at), "rules")
        earlier.append(rule.when)


def _is_implied(guard: Authored, earlier: Sequence[Authored | None]) -> bool:
    return guards.implied(guard, earlier, None)


def _never_decides(address: str, others: str) -> PlacedFinding:
    message = f"this guard can never decide: whenever it is true, one of the {others} before it is true as well"
    return PlacedFinding("W_GUARD_OVERLAP", (address,), message, "put the narrower guard first, or remove this one")
