"""From routers to firings: which arcs a run's end can take together (ROUTE-03…05, 07; ADM-02…04).

An exclusive router takes the first arc that matches, so a guard that is certainly true hides all arcs after it. Nothing
here follows tokens further than to the arcs' targets.
"""

from __future__ import annotations

from itertools import combinations

from noetl.language.proving import guards
from noetl.language.proving.graph import FAILED, TIMED_OUT, Firing, Graph, NetStep, StepEnding, boundary_events
from noetl.language.v2_case import port as v2_case
from noetl.net.debug import arc_address, part_address
from noetl.net.net import Net, Transition
from noetl.net.routing import Admission, Arc, Mode, Router

# Number of optional arcs whose guards are compared with each other; with more, guards count as independent.
_ENUMERATED = 5


def build(net: Net) -> Graph:
    """The abstract token net of `net`."""
    targets = Targets(net)
    steps = [
        NetStep(
            index=index,
            name=step.name,
            firings=_firings(step, targets),
            join=step.join,
            may_deny=step.admission is not None and _may_deny(step.admission),
        )
        for index, step in enumerate(net.transitions)
    ]
    steps += [
        NetStep(index=at, name=name, firings=(Firing("step.done"),), written=False) for name, at in targets.implicit
    ]
    return Graph(tuple(steps), targets.index(net.entry), tuple(targets.guessed))


def _firings(step: Transition, targets: Targets) -> tuple[Firing, ...]:
    if step.ends_execution:
        # One event is enough: whichever it is, the execution ends.
        firings = [Firing(event, stops=True) for event in boundary_events(step)[:1]]
    else:
        by_rules = v2_case.firings(step, targets)
        firings = router_firings(step, targets) if by_rules is None else by_rules
    if step.timeout is not None and step.timeout.on_timeout == "alternative" and step.timeout.alternative:
        alternative = (targets.index(step.timeout.alternative),)
        firings.append(Firing(TIMED_OUT, fixed=(StepEnding(part_address(step.name, "timeout"), -1, alternative),)))
    return _distinct(firings)


def router_firings(step: Transition, targets: Targets) -> list[Firing]:
    """The possible firings of the router of a v10 or v2-eval step, on each of its boundary events."""
    router = step.router or Router()
    ways = [targets.way(arc_address(step.name, at), at, arc) for at, arc in enumerate(router.arcs)]
    found: list[Firing] = []
    for event in boundary_events(step):
        truths = [arc_truth(arc, event, router) for arc in router.arcs]
        choose = _exclusive if router.mode is Mode.EXCLUSIVE else _inclusive
        found += choose(event, router.arcs, ways, truths)
    return [_stopping(firing, router) for firing in found]


def arc_truth(arc: Arc, event: str, router: Router) -> bool | None:
    """Whether `arc` is taken on `event`: certainly, never, or (None) as its guard will say (ROUTE-05)."""
    if arc.when is None:
        return event != FAILED or router.unguarded_always
    return guards.truth(arc.when, event)


def _exclusive(event: str, arcs: tuple[Arc, ...], ways: list[StepEnding], truths: list[bool | None]) -> list[Firing]:
    firings, open_guards = [], []
    for arc, way, truth in zip(arcs, ways, truths, strict=True):
        if truth is False:
            continue
        firings.append(Firing(event, fixed=(way,)))
        if truth is True:
            return firings
        open_guards.append(arc.when)
    # No arc may be taken, and then the token ends. A failure without an arc fails the execution, which is never
    # unsound.
    if event != FAILED and not guards.covered(open_guards, event):
        firings.append(Firing(event))
    return firings


def _inclusive(event: str, arcs: tuple[Arc, ...], ways: list[StepEnding], truths: list[bool | None]) -> list[Firing]:
    fixed = tuple(way for way, truth in zip(ways, truths, strict=True) if truth is True)
    chances = [(arc, way) for arc, way, truth in zip(arcs, ways, truths, strict=True) if truth is None]
    if not chances:
        # A failure that no arc takes fails the execution and is no firing (ROUTE-08).
        return [Firing(event, fixed)] if fixed or event != FAILED else []
    together = _chance_sets(event, fixed, chances)
    if together is not None:
        return together
    open_guards = [arc.when for arc, _ in chances]
    may_end = event != FAILED and not fixed and not guards.covered(open_guards, event)
    return [Firing(event, fixed, tuple(way for _, way in chances), may_end=may_end)]


def _chance_sets(
    event: str, fixed: tuple[StepEnding, ...], chances: list[tuple[Arc, StepEnding]]
) -> list[Firing] | None:
    """Every set of `chances` that can be true together; None if their guards are independent of each other."""
    conditions = [arc.when for arc, _ in chances]
    # Guards that read different things can be true in every combination, which `optional` says in one firing.
    if len(chances) > _ENUMERATED or not guards.related(conditions, event):
        return None
    firings = []
    for size in range(len(chances) + 1):
        for chosen in combinations(range(len(chances)), size):
            yes = [conditions[i] for i in chosen]
            no = [conditions[i] for i in range(len(chances)) if i not in chosen]
            taken = fixed + tuple(chances[i][1] for i in chosen)
            if (taken or event != FAILED) and guards.possible(yes, no, event):
                firings.append(Firing(event, taken))
    return firings


def _stopping(firing: Firing, router: Router) -> Firing:
    """An arc with `cancel: execution` among the fixed ones ends everything."""
    if any("*" in router.arcs[way.index].cancel for way in firing.fixed):
        return Firing(firing.event, firing.fixed, stops=True)
    return firing


def _distinct(firings: list[Firing]) -> tuple[Firing, ...]:
    """One firing for each effect: later analysis does not need the event that led to it."""
    seen: dict[tuple[object, ...], Firing] = {}
    for firing in firings:
        seen.setdefault((firing.fixed, firing.optional, firing.stops, firing.ends), firing)
    return tuple(seen.values())


def _may_deny(admission: Admission) -> bool:
    """Whether some token may be refused or parked; both simply end for the analysis (O-03)."""
    truths = [(rule, True if rule.when is None else guards.truth(rule.when, None)) for rule in admission.rules]
    live = [(rule, truth) for rule, truth in truths if truth is not False]
    if admission.mode is Mode.EXCLUSIVE:
        for rule, truth in live:
            if not rule.allow or rule.park:
                return True
            if truth is True:
                return False
        return bool(admission.rules)
    certain = any(truth is True and rule.allow and not rule.park for rule, truth in live)
    return bool(admission.rules) and (not certain or any(not rule.allow or rule.park for rule, _ in live))


# Targets: step names as numbers, with the places that exist only because an arc names them (C-27, C-40).


class Targets:
    """Numbers for the steps of one net; grows when an arc leads to an implicit place."""

    def __init__(self, net: Net) -> None:
        self._indexes = {step.name: index for index, step in enumerate(net.transitions)}
        self._written = len(net.transitions)
        self.guessed: list[str] = []

    def index(self, name: str) -> int:
        return self._indexes.setdefault(name, len(self._indexes))

    @property
    def implicit(self) -> list[tuple[str, int]]:
        return [(name, at) for name, at in self._indexes.items() if at >= self._written]

    def way(self, address: str, index: int, arc: Arc) -> StepEnding:
        """An arc in numbers. A computed target without known candidates may lead to any step."""
        targets: tuple[int, ...]
        if arc.computed is None:
            targets = (self.index(arc.target),)
        elif arc.candidates:
            targets = tuple(self.index(name) for name in arc.candidates)
        else:
            targets = tuple(range(self._written))
            self.guessed.append(address)
        # `*`, the whole execution, is no step: `_stopping` sees to it.
        cancels = tuple(self._indexes[name] for name in arc.cancel if name in self._indexes)
        return StepEnding(address, index, targets, max(arc.tokens, 1), cancels)
