"""Soundness: deadlock, unfilled joins, tokens left behind, growth, traps; and how it was decided.

Linear checks first, then `fates` (groups settled level by level), then, only where the order of tokens matters,
the search of all markings; and an honest "not decided" when the budget ends first.
"""

from __future__ import annotations

import msgspec

from noetl.language.proving.graph import Graph
from noetl.language.proving.growth import Growth, growing
from noetl.language.proving.outcomes import Fault
from noetl.language.proving.reachability import Trap, traps, unreachable
from noetl.language.proving.search import StateSearch
from noetl.language.proving.simulation import play
from noetl.language.proving.token_outcomes import Fates, OutOfBudget
from noetl.language.proving.witness import Move

_PRICE = 200  # combinations of outcomes that take as long as one marking of the search


class Soundness(msgspec.Struct, frozen=True, kw_only=True):
    """`undecided` says why nothing more could be told; `work` and `states` are what it took."""

    unreachable: tuple[int, ...] = ()
    traps: tuple[Trap, ...] = ()
    growth: tuple[Growth, ...] = ()
    faults: dict[Fault, tuple[Move, ...]] = {}
    undecided: str = ""
    work: int = 0
    states: int = 0


def judge(graph: Graph, budget: int) -> Soundness:
    """Everything that is known about the soundness of `graph`."""
    fates, undecided = _solved(graph, budget)
    found, states = (_faults(fates), 0) if fates is not None else ({}, 0)
    if undecided or _may_block(graph) or _is_doubtful(graph, found):
        found, states, undecided = _searched(graph, budget)
    if graph.guessed:
        found, undecided = {}, "some targets are computed at run time"
    return Soundness(
        unreachable=tuple(unreachable(graph)),
        traps=_traps(graph, fates, bool(found)),
        growth=() if graph.guessed else tuple(growing(graph, fates)),
        faults=found,
        undecided=undecided,
        work=fates.spent if fates else budget,
        states=states,
    )


def _solved(graph: Graph, budget: int) -> tuple[Fates | None, str]:
    try:
        return Fates(graph, budget), ""
    except OutOfBudget:
        return None, _spent(budget)


def _faults(fates: Fates) -> dict[Fault, tuple[Move, ...]]:
    outcomes = fates.outcomes(*fates.root)
    return {outcome: play(fates, outcome) for outcome in outcomes if isinstance(outcome, Fault)}


def _searched(graph: Graph, budget: int) -> tuple[dict[Fault, tuple[Move, ...]], int, str]:
    search = StateSearch(graph, budget // _PRICE)
    return search.faults, search.states, "" if search.finished or search.faults else _spent(budget)


def _spent(budget: int) -> str:
    return f"the net has more states than the budget of {budget} allows to visit"


def _is_doubtful(graph: Graph, found: dict[Fault, tuple[Move, ...]]) -> bool:
    """Whether tokens withdraw one another, so that `fates` may have found what cannot happen: any fault where arcs have
    cancel lists, a deadlock where a join with `rest: cancel` may yet dissolve it."""
    dissolving = any(step.join is not None and step.join.rest == "cancel" for step in graph.steps)
    return bool(found) and (bool(graph.cancelled) or (dissolving and any(f.kind == "W_DEADLOCK" for f in found)))


def _may_block(graph: Graph) -> bool:
    """Whether a join with `rest: block` may hold back the very tokens it waits for, which `fates` does not see: with
    two such joins, or when a group and one forked inside it can both come to the same one."""
    blocking = [s.index for s in graph.steps if s.join is not None and s.join.rest == "block"]
    if len(blocking) != 1:
        return bool(blocking)
    ahead = graph.leading_to(set(blocking))
    forks = [s.index for s in graph.steps if s.forks and s.index in ahead]
    after = {fork: graph.reachable(*graph[fork].successors) for fork in forks}
    return any(other in after[fork] for fork in forks for other in forks)


def _traps(graph: Graph, fates: Fates | None, faulty: bool) -> tuple[Trap, ...]:
    """Closed components; or the entry itself, when every round of some cycle needs a branch that goes on for ever."""
    found = traps(graph)
    if found or fates is None or faulty or fates.can_end:
        return tuple(found)
    return (Trap(graph.entry, (graph.entry,), ()),)
