"""Soundness: deadlock, unfilled joins, tokens left behind, growth, traps; and how it was decided.

Linear checks first, then `fates` (groups settled level by level), then, only where the order of tokens matters,
the search of all markings; and an honest "not decided" when the budget ends first.
"""

from __future__ import annotations

import msgspec

from noetl.analysis.fates import Fates, OutOfBudget
from noetl.analysis.graph import Graph
from noetl.analysis.growth import Growth, growing
from noetl.analysis.outcomes import Fault
from noetl.analysis.playing import play
from noetl.analysis.reachability import Trap, traps, unreachable
from noetl.analysis.search import Search
from noetl.analysis.witness import Move


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
    if undecided or _blocks(graph) or (found and _order_matters(graph)):
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
    try:
        search = Search(graph, max(budget // 20, 1))
    except OutOfBudget:
        return {}, max(budget // 20, 1), _spent(budget)
    return search.faults, search.states, ""


def _spent(budget: int) -> str:
    return f"the net has more states than the budget of {budget} allows to visit"


def _order_matters(graph: Graph) -> bool:
    """Whether tokens withdraw one another: `fates` then allows more than can happen."""
    return bool(graph.cancelled) or any(s.join is not None and s.join.rest == "cancel" for s in graph.steps)


def _blocks(graph: Graph) -> bool:
    """Whether a join may hold one group back until another is through, which `fates` does not see."""
    return any(s.join is not None and s.join.rest == "block" for s in graph.steps)


def _traps(graph: Graph, fates: Fates | None, faulty: bool) -> tuple[Trap, ...]:
    """Closed components; or the entry itself, when every round of some cycle needs a branch that goes on for ever."""
    found = traps(graph)
    if found or fates is None or faulty or fates.outcomes(*fates.root):
        return tuple(found)
    return (Trap(graph.entry, (graph.entry,), ()),)
