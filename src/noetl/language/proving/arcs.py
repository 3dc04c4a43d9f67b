"""Arcs with the guards that decide them, cycles of arcs with the reason why each cycle ends, and traps.

In an exclusive router, an arc is taken only if the arcs before it are not, so its guards include theirs. A trap is a
set of steps that no token can leave (ADV-06).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

import msgspec

from noetl.language.proving.firings import arc_truth
from noetl.language.proving.graph import FAILED, Graph, boundary_events, components, cycles, path
from noetl.language.proving.variable_access import Moving, ReadKeys, keys, step_ctx
from noetl.language.proving.witness import CycleReason, Marking, Move, PlacedFinding, sent
from noetl.net.debug import arc_address, part_address, transition_address
from noetl.net.net import Net, Transition
from noetl.net.routing import Arc, Mode, Router
from noetl.templates.values import Authored

# Steps no token can come to, and steps from which no token can end (ADV-06).


class Trap(msgspec.Struct, frozen=True):
    """Steps that lead only to each other; `step` is the first of them in the text."""

    step: int
    steps: tuple[int, ...]
    moves: tuple[Move, ...]


def unreachable(graph: Graph) -> list[int]:
    """Written steps that no walk from the entry comes to."""
    reached = graph.reachable(graph.entry)
    return [step.index for step in graph.steps if step.written and step.index not in reached]


def traps(graph: Graph) -> list[Trap]:
    """The reachable components without an exit in which no token may end."""
    reached = graph.reachable(graph.entry)
    taken_away = graph.withdrawable
    # A token that may be withdrawn does not stay forever either.
    ending = graph.leading_to({index for index in reached if graph[index].may_end or index in taken_away})
    closed = {index: [t for t in graph[index].successors if t not in ending] for index in sorted(reached - ending)}
    found = []
    for part in components(closed):
        inside = set(part)
        if all(target in inside for index in part for target in graph[index].successors):
            first = min(part)
            found.append(Trap(first, tuple(sorted(part)), _walk_in(graph, first)))
    return sorted(found, key=lambda trap: trap.step)


def _walk_in(graph: Graph, step: int) -> tuple[Move, ...]:
    """A walk from the entry into the trap and once around it."""
    edges = {s.index: s.successors for s in graph.steps}
    walk = [step] if step == graph.entry else path(edges, graph.entry, [step]) or [step]
    walk = walk + (path(edges, step, [step]) or [step])[1:]
    return walked(graph, walk)


def walked(graph: Graph, walk: list[int]) -> tuple[Move, ...]:
    """The moves of one token along `walk`."""
    marking = Marking(graph)
    for source, target in pairwise(walk):
        for firing in graph[source].firings:
            way = next((w for w in firing.ways if target in w.targets), None)
            if way is not None:
                # The other tokens of a fork stay on their first step: a walk follows one token.
                others = [w.targets[0] for w in firing.fixed if w is not way]
                targets = [target, *others]
                marking.fire(source, [way.address], targets, sent(graph, source, targets, firing.event))
                break
    return tuple(marking.moves)


class StepEdge(msgspec.Struct, frozen=True):
    """One way from step to step."""

    source: str
    target: str
    address: str  # in the debug map
    # Guards that decide whether it is taken: its own and those of the arcs before it.
    guards: tuple[Authored, ...] = ()
    # Admission conditions of the target step.
    admission: tuple[Authored, ...] = ()
    args: Authored | None = None
    # Why a cycle over this edge must end, with any guards. None if there is no such reason.
    reason: str | None = None


def edges(net: Net, inside: set[str] | None = None) -> list[StepEdge]:
    """All ways between the steps of `net`, or those that leave the steps `inside`."""
    admission = {
        step.name: tuple(rule.when for rule in step.admission.rules if rule.when is not None)
        for step in net.transitions
        if step.admission is not None
    }
    bounded = {step.name for step in net.transitions if "max_runs" in step.quotas}
    found: list[StepEdge] = []
    for step in net.transitions:
        if inside is None or step.name in inside:
            for edge in (*_router_edges(step), *_case_edges(step), *_timed_out(step)):
                reason = edge.reason or _reason(step, edge.target in bounded)
                admitting = admission.get(edge.target, ())
                found.append(msgspec.structs.replace(edge, admission=admitting, reason=reason))
    return found


def args_to_anywhere(net: Net) -> list[Authored]:
    """The args of arcs with an unknown computed target: they may reach any step (C-27)."""
    routed = [arc for step in net.transitions if step.router is not None for arc in step.router.arcs]
    actions = [act for step in net.transitions if step.case for rule in step.case.rules for act in rule.actions]
    arcs = [*routed, *(arc for act in actions for arc in act.transition)]
    return [arc.args for arc in arcs if arc.computed is not None and not arc.candidates and arc.args is not None]


def _reason(step: Transition, bounded: bool) -> str | None:
    if step.waits:
        return f"{step.name} waits in each round"
    if step.case is not None and step.case.on_event:
        return f"{step.name} waits for an event in each round"
    return "quotas.max_runs bounds it" if bounded else None


def _router_edges(step: Transition) -> Iterator[StepEdge]:
    router = step.router or Router()
    decided = tuple(rule.when for rule in step.case.rules if rule.when is not None) if step.case else ()
    before: list[Authored] = []
    for at, arc in enumerate(router.arcs):
        own = (arc.when,) if arc.when is not None else ()
        # In an exclusive router an arc is taken only if the arcs before it are not, so the names that they read decide
        # it too.
        guards = (*own, *(before if router.mode is Mode.EXCLUSIVE else ()), *decided)
        reason = "a repeated key is dropped (dedupe)" if arc.dedupe is not None else _after_failure(step, arc, router)
        yield from _arc_edges(step.name, arc, arc_address(step.name, at), guards, reason)
        before += own


def _after_failure(step: Transition, arc: Arc, router: Router) -> str | None:
    calm = [event for event in boundary_events(step) if event != FAILED]
    only = arc.when is not None and all(arc_truth(arc, event, router) is False for event in calm)
    return f"{step.name} goes round only after a failure" if only else None


def _case_edges(step: Transition) -> Iterator[StepEdge]:
    """Transitions of case rules; in exclusive mode the rules before one govern it too."""
    before: list[Authored] = []
    for at, rule in enumerate(step.case.rules if step.case else ()):
        own = (rule.when,) if rule.when is not None else ()
        for position, action in enumerate(rule.actions):
            extra = (action.guard,) if action.guard is not None else ()
            address = transition_address(step.name, at, position)
            for arc in action.transition:
                yield from _arc_edges(step.name, arc, address, (*own, *extra, *before), None)
        before += own


def _arc_edges(
    source: str, arc: Arc, address: str, guards: tuple[Authored, ...], reason: str | None
) -> Iterator[StepEdge]:
    if arc.computed is not None:
        guards = (arc.computed, *guards)
    for target in arc.candidates if arc.computed is not None else (arc.target,):
        yield StepEdge(source, target, address, guards, args=arc.args, reason=reason)


def _timed_out(step: Transition) -> Iterator[StepEdge]:
    if step.timeout is not None and step.timeout.on_timeout == "alternative" and step.timeout.alternative:
        address = part_address(step.name, "timeout")
        yield StepEdge(
            step.name, step.timeout.alternative, address, reason=f"{step.name} goes round only after a timeout"
        )


# Cycles of arcs, and the reason why each one ends (ROUTE-10, beyond.md §2).
#
# An arc has a reason not to be taken forever in three cases: its step can also leave the cycle, and a guard of the arc
# reads a name that each round of the cycle may change; it is taken only after a failure or a timeout; its step waits. A
# cycle without such an arc ends only when the budget of step runs is used up.


def arc_cycles(
    net: Net, graph: Graph, reported: Collection[frozenset[int]] = ()
) -> tuple[list[PlacedFinding], list[CycleReason]]:
    """Cycles without a reason to end, and the reasons of the others. A cycle whose steps have all been reported is
    not reported again."""
    reached = graph.reachable(graph.entry)
    order = {step.name: step.index for step in graph.steps}
    found: list[PlacedFinding] = []
    reasons: list[CycleReason] = []
    for part in cycles({index: graph[index].successors for index in sorted(reached)}):
        inside = {graph.name(index) for index in part}
        around = [edge for edge in edges(net, inside) if edge.target in inside]
        moving = _moving(net, inside, around)
        leaving = {graph.name(index) for index in part if _can_leave(graph, index, set(part))}
        why = {edge: _cycle_reason(edge, moving, edge.source in leaving) for edge in around}
        # The arcs that have a reason not to be taken forever are left out: a cycle of the other arcs has no reason to
        # end.
        endless = cycles({name: [e.target for e in around if e.source == name and not why[e]] for name in inside})
        fresh = [names for names in endless if not any({order[name] for name in names} <= one for one in reported)]
        found += [_endless(graph, names, [e for e in around if not why[e]]) for names in fresh]
        if not endless:
            distinct = dict.fromkeys(reason for reason in why.values() if reason)
            reasons.append(CycleReason(tuple(graph.name(index) for index in part), "; ".join(distinct)))
    return found, reasons


def _cycle_reason(edge: StepEdge, moving: Moving, leaves: bool) -> str | None:
    """Why `edge` will not be taken forever."""
    decided = edge.guards if leaves else ()
    return edge.reason or moving.first_reason((*decided, *edge.admission))


def _can_leave(graph: Graph, index: int, inside: set[int]) -> bool:
    """Whether a run of the step can end its token or send it out of the cycle, without a failure."""
    calm = [firing for firing in graph[index].firings if firing.event != FAILED]
    outside = any(target not in inside for firing in calm for way in firing.ways for target in way.targets)
    return outside or any(firing.stops or firing.ends for firing in calm)


def _moving(net: Net, inside: set[str], around: list[StepEdge]) -> Moving:
    written, passed = ReadKeys(), ReadKeys()
    for step in net.transitions:
        if step.name in inside:
            written |= step_ctx(step)
    for edge in around:
        passed |= keys(edge.args)
    return Moving(ctx=written, args=passed, results=frozenset(inside), workload=frozenset(net.workload))


def _endless(graph: Graph, names: list[str], around: list[StepEdge]) -> PlacedFinding:
    order = {step.name: step.index for step in graph.steps}
    names = sorted(names, key=order.__getitem__)
    ways = {name: [e.target for e in around if e.source == name and e.target in names] for name in names}
    walk = path(ways, names[0], [names[0]]) or names
    # The arc that leads back from the last line in the text: authors look there for what closes the cycle.
    back = max((e for e in around if e.source in names and e.target in names), key=lambda e: order[e.source])
    indexes = {step.index: step.successors for step in graph.steps}
    start = order[names[0]]
    lead = [start] if start == graph.entry else path(indexes, graph.entry, [start]) or [start]
    # The shortest walk may miss steps of a cycle with several ways; then all of them are named.
    around_once = " -> ".join(walk) if set(walk) == set(names) else f"through {', '.join(names)}"
    message = f"nothing was found that ends the cycle {around_once}"
    hint = "give an arc of it a condition that reads what each round changes, such as a counter in ctx or a result"
    moves = walked(graph, [*lead, *(order[name] for name in walk[1:])])
    return PlacedFinding("W_CYCLE_UNBOUNDED", (back.address,), message, hint, moves)
