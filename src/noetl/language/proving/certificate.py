"""The certificate: the proved properties of one net, stored under the net's content hash (beyond.md §2, ADV-06).

Plain data that serialises to JSON. `analyse` is the only entry point of the package. The findings about routing
and limits are made here too; soundness, cycles, pipelines and variables have modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from noetl.base.diagnostics import Diagnostic, in_order, is_template
from noetl.language.proving import guards
from noetl.language.proving.arcs import arc_cycles
from noetl.language.proving.dataflow import used_before_set
from noetl.language.proving.firings import arc_truth, build
from noetl.language.proving.graph import FAILED, Graph, boundary_events
from noetl.language.proving.pipelines import pipeline_findings
from noetl.language.proving.soundness import UNSOUND, Soundness, judge, soundness_findings
from noetl.language.proving.witness import CycleReason, Move, PlacedFinding
from noetl.net.debug import DebugMap, arc_address, part_address, rule_address, step_address, task_address
from noetl.net.net import Concurrency, Net, Transition, content_hash
from noetl.net.routing import Mode, Router
from noetl.net.task import Task
from noetl.templates.logic import And, Compare, Not, Or, Shape
from noetl.templates.values import Authored

# Combinations to examine before soundness stays undecided; they take well under half a second.
BUDGET = 400_000

Verdict = Literal["sound", "unsound", "not decided"]


class Witness(msgspec.Struct, frozen=True):
    """The firing sequence behind one finding, to be played as moving tokens."""

    code: str
    path: str
    message: str
    moves: tuple[Move, ...]


class CertificateMark(msgspec.Struct, frozen=True):
    """The place of a finding in the net, by address of the debug map, for drawings."""

    code: str
    address: str


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the net, and the work the proof took: combinations of outcomes, markings of the search."""

    steps: int
    arcs: int
    forks: int
    joins: int
    cycles: int
    combinations: int
    markings: int


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """The proved properties of one net, stored as JSON."""

    verdict: Verdict
    # Hash of the net: a certificate of another version proves nothing.
    hash: str
    findings: tuple[Diagnostic, ...] = ()  # in document order
    # For the findings that a firing sequence can show.
    witnesses: tuple[Witness, ...] = ()
    marks: tuple[CertificateMark, ...] = ()
    reasons: tuple[CycleReason, ...] = ()  # why each cycle ends
    statistics: Statistics


def analyse(net: Net, debug: DebugMap, *, budget: int = BUDGET) -> Certificate:
    """Prove what can be proved about `net`; findings are placed through `debug`."""
    graph = build(net)
    result = judge(graph, budget)
    # If a cycle cannot be left, the finding that no end can be reached is enough.
    cycle_findings, reasons = arc_cycles(net, graph, [frozenset(trap.steps) for trap in result.traps])
    task_findings, task_reasons = pipeline_findings(net)
    found = soundness_findings(graph, result)
    unsound = any(finding.code in UNSOUND for finding in found)
    found += cycle_findings + task_findings + routing_findings(net) + resource_findings(net)
    found += used_before_set(net, graph)
    return Certificate(
        verdict="unsound" if unsound else "not decided" if result.undecided else "sound",
        hash=content_hash(net),
        findings=tuple(in_order(finding.diagnostic(debug) for finding in found)),
        witnesses=tuple(_witness(finding, debug) for finding in found if finding.moves),
        marks=tuple(CertificateMark(finding.code, finding.addresses[0]) for finding in found),
        reasons=tuple(reasons + task_reasons),
        statistics=_statistics(graph, result, len(reasons) + len(task_reasons)),
    )


def _witness(finding: PlacedFinding, debug: DebugMap) -> Witness:
    placed = finding.diagnostic(debug)
    return Witness(finding.code, placed.path, finding.message, finding.moves)


def _statistics(graph: Graph, result: Soundness, cycles: int) -> Statistics:
    return Statistics(
        steps=sum(step.written for step in graph.steps),
        arcs=len({way.address for _, _, way in graph.ways()}),
        forks=sum(step.forks for step in graph.steps),
        joins=sum(step.join is not None for step in graph.steps),
        cycles=cycles,
        combinations=result.work,
        markings=result.states,
    )


# Routing: events without a matching arc, guards that can never decide, arcs and steps that can never fire (ADV-06).
# Only certain findings are reported: a guard on data may be intended to be false (ROUTE-07). The compiler itself
# reports an unguarded arc that hides the arcs after it (W_ARC_SHADOWED), and a name that is no event of the step
# (W_EVENT_NEVER).


def routing_findings(net: Net) -> list[PlacedFinding]:
    """The certain mistakes in the guards of `net`."""
    found: list[PlacedFinding] = []
    for step in net.transitions:
        found += _never_admitted(step)
        # The rules of a v2-case step decide first; its router decides only events for which no rule matches.
        if step.router is not None and step.case is None:
            found += _constant_false(step, step.router)
            found += _unrouted_events(step, step.router)
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


def _unrouted_events(step: Transition, router: Router) -> Iterator[PlacedFinding]:
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
    """Whether failures lead to compensation and successes have no arc: then it is the last step of a saga, and a token
    that ends there is intended (SAGA-02)."""
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
            yield _never_decides(arc_address(step.name, at), "arc")
        earlier.append(arc.when)


def _shadowed_rules(step: Transition, task: Task) -> Iterator[PlacedFinding]:
    """Policy rules are tried in order too (POL-01)."""
    earlier: list[Authored | None] = []
    for at, rule in enumerate(task.policy.rules if task.policy else ()):
        if rule.when is None:
            break
        if earlier and guards.truth(rule.when, None) is not False and guards.implied(rule.when, earlier, None):
            yield _never_decides(rule_address(step.name, task.name, at), "rule")
        earlier.append(rule.when)


def _never_decides(address: str, other: str) -> PlacedFinding:
    message = f"this {other} is never taken: whenever its condition holds, an earlier {other} holds as well"
    return PlacedFinding("W_GUARD_OVERLAP", (address,), message, "put the narrower condition first, or remove this one")


# Resource deadlock: a limit that is held while waiting for something that needs the same limit. Two forms are found,
# and no others: (1) a playbook with a concurrency limit that calls itself and waits for the child; (2) a step that
# holds a slot while it waits for an event that only steps queueing for the same slot emit. A limit counts when it is a
# literal number and queues. The slots of a step's limit belong to one execution, so a child never waits for those of
# its parent. Without a key they belong to the step alone. With a key, all steps with the same key share them; two keys
# count as the same when they are written the same way. Limits of other playbooks, capacities of pools, rates and leases
# are not known to a net and are left alone.


def resource_findings(net: Net) -> list[PlacedFinding]:
    """Limits of `net` that can wait for themselves."""
    found: list[PlacedFinding] = []
    for step in net.transitions:
        for task in step.tasks:
            if _waits_for_itself(net, task):
                found += _nested_findings(net, step, task)
        found += _held_while_waiting(net, step)
    return found


def _waits_for_itself(net: Net, task: Task) -> bool:
    spec = task.spec.data if isinstance(task.spec.data, dict) else {}
    inputs = task.inputs.data if isinstance(task.inputs.data, dict) else {}
    return task.kind == "playbook" and inputs.get("path") == net.path and not spec.get("async")


def _nested_findings(net: Net, step: Transition, task: Task) -> Iterator[PlacedFinding]:
    where = (task_address(step.name, task.name),)
    if _limits(net.executor.concurrency):
        message = "this playbook calls itself and waits, while its own concurrency limit keeps the child queued"
        yield PlacedFinding(
            "W_RESOURCE_DEADLOCK", where, message, "give the child another key, or call it with async: true"
        )


def _limits(concurrency: Concurrency | None) -> bool:
    """A literal limit that queues. Nesting has no bound, so any number of slots can be used up."""
    return concurrency is not None and concurrency.on_limit == "queue" and not is_template(str(concurrency.limit.data))


def _held_while_waiting(net: Net, step: Transition) -> Iterator[PlacedFinding]:
    if step.case is None or not step.case.on_event or not _only_one(step.concurrency):
        return
    heard = {name for rule in step.case.rules for name in _event_names(guards.shape_of(rule.when))}
    emitters = [other for other in net.transitions if any(emit.name in heard for emit in other.emit)]
    queueing = [other for other in emitters if other is not step and _same_slot(step, other)]
    if emitters and len(queueing) == len(emitters):
        names = " and ".join(f'"{other.name}"' for other in queueing)
        message = f"this step holds the slot that {names} needs, and waits for an event that only {names} emits"
        where = (part_address(step.name, "concurrency"), step_address(step.name))
        yield PlacedFinding("W_RESOURCE_DEADLOCK", where, message, "use another key for the step that waits")


def _only_one(concurrency: Concurrency | None) -> bool:
    return _limits(concurrency) and concurrency is not None and str(concurrency.limit.data) == "1"


def _same_slot(one: Transition, other: Transition) -> bool:
    """Whether two steps share a slot: both limits have the same key, written the same way (`engine.limits`)."""
    if one.concurrency is None or other.concurrency is None or not _only_one(other.concurrency):
        return False
    return one.concurrency.key is not None and one.concurrency.key == other.concurrency.key


def _event_names(shape: Shape) -> set[str]:
    match shape:
        case And(parts) | Or(parts):
            return set().union(*map(_event_names, parts))
        case Compare("event", ("name",), "==" | "in", values):
            return {str(value) for value in values}
        case Not(part):
            return _event_names(part)
        case _:
            return set()
