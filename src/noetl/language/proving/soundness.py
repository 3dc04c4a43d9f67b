"""Soundness: deadlock, unfilled joins, tokens left behind, growth, traps; and how it was decided.

Linear checks first, then `token_outcomes` (groups settled level by level), then, only where the order of tokens
matters, the search of all markings; and an honest "not decided" when the budget ends first.
"""

from __future__ import annotations

import msgspec

from noetl.language.proving.components import Trap, traps, unreachable
from noetl.language.proving.graph import Graph
from noetl.language.proving.growth import Growth, growing
from noetl.language.proving.outcomes import Fault
from noetl.language.proving.search import StateSearch
from noetl.language.proving.source_positions import PlacedFinding
from noetl.language.proving.token_outcomes import OutOfBudget, TokenOutcomes
from noetl.language.proving.witness import Move, listed, play
from noetl.net.debug import part_address, step_address

_PRICE = 200  # combinations of outcomes that take as long as one marking of the search


class Soundness(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the soundness of a net."""

    unreachable: tuple[int, ...] = ()
    traps: tuple[Trap, ...] = ()
    growth: tuple[Growth, ...] = ()
    faults: dict[Fault, tuple[Move, ...]] = {}  # each with the moves that lead to it
    undecided: str = ""  # why nothing more could be told; empty: everything was
    work: int = 0  # combinations that the equations took
    states: int = 0  # markings that the search visited; 0: it was not needed


def judge(graph: Graph, budget: int) -> Soundness:
    """Everything that is known about the soundness of `graph`."""
    solved, undecided = _solved(graph, budget)
    found, states = (_faults(solved), 0) if solved is not None else ({}, 0)
    if undecided or _may_block(graph) or _is_doubtful(graph, found):
        found, states, undecided = _searched(graph, budget)
    # A token may go anywhere, so faults that were found may be impossible, and others may be missing: nothing is
    # claimed.
    if graph.guessed:
        found, undecided = {}, "some targets are computed at run time"
    return Soundness(
        unreachable=tuple(unreachable(graph)),
        traps=_traps(graph, solved, bool(found)),
        growth=() if graph.guessed else tuple(growing(graph, solved)),
        faults=found,
        undecided=undecided,
        work=solved.spent if solved else budget,
        states=states,
    )


def _solved(graph: Graph, budget: int) -> tuple[TokenOutcomes | None, str]:
    try:
        return TokenOutcomes(graph, budget), ""
    except OutOfBudget:
        return None, _spent(budget)


def _faults(solved: TokenOutcomes) -> dict[Fault, tuple[Move, ...]]:
    outcomes = solved.outcomes(*solved.root)
    return {outcome: play(solved, outcome) for outcome in outcomes if isinstance(outcome, Fault)}


def _searched(graph: Graph, budget: int) -> tuple[dict[Fault, tuple[Move, ...]], int, str]:
    search = StateSearch(graph, budget // _PRICE)
    return search.faults, search.states, "" if search.finished or search.faults else _spent(budget)


def _spent(budget: int) -> str:
    return f"the net has more states than the budget of {budget} allows to visit"


def _is_doubtful(graph: Graph, found: dict[Fault, tuple[Move, ...]]) -> bool:
    """Whether tokens withdraw one another, so that `token_outcomes` may have found what cannot happen: any fault
    where arcs have cancel lists, a deadlock where a join with `rest: cancel` may yet dissolve it."""
    dissolving = any(step.join is not None and step.join.rest == "cancel" for step in graph.steps)
    return bool(found) and (bool(graph.cancelled) or (dissolving and any(f.kind == "W_DEADLOCK" for f in found)))


def _may_block(graph: Graph) -> bool:
    """Whether a join with `rest: block` may hold back the very tokens it waits for, which `token_outcomes` does not
    see: with two such joins, or when a group and one forked inside it can both come to the same one."""
    blocking = [s.index for s in graph.steps if s.join is not None and s.join.rest == "block"]
    if len(blocking) != 1:
        return bool(blocking)
    ahead = graph.leading_to(set(blocking))
    forks = [s.index for s in graph.steps if s.forks and s.index in ahead]
    after = {fork: graph.reachable(*graph[fork].successors) for fork in forks}
    return any(other in after[fork] for fork in forks for other in forks)


def _traps(graph: Graph, solved: TokenOutcomes | None, faulty: bool) -> tuple[Trap, ...]:
    """Closed components; or the entry itself, when every round of some cycle needs a branch that goes on for ever."""
    found = traps(graph)
    if found or solved is None or faulty or solved.can_end:
        return tuple(found)
    return (Trap(graph.entry, (graph.entry,), ()),)


# What soundness says to an author: each fault in words, with the way out.

# The findings that make a net unsound; the others are advice.
UNSOUND = frozenset({"W_DEADLOCK", "W_JOIN_UNFILLED", "W_TOKEN_LEFT", "W_NO_END", "W_TOKEN_GROWTH", "W_UNREACHABLE"})


def soundness_findings(graph: Graph, result: Soundness) -> list[PlacedFinding]:
    """One finding for each thing that is wrong, and a note when not everything could be told."""
    found = [_unreachable(graph, step) for step in result.unreachable]
    found += [_trap(graph, trap) for trap in result.traps]
    found += [_growth(graph, growth) for growth in result.growth]
    found += [_fault(graph, fault, moves) for fault, moves in _worst(result.faults).items()]
    if result.undecided:
        message = f"whether this workflow is sound is not decided: {result.undecided}"
        found.append(PlacedFinding("I_NOT_DECIDED", (step_address(graph.name(graph.entry)),), message))
    return found


def _worst(faults: dict[Fault, tuple[Move, ...]]) -> dict[Fault, tuple[Move, ...]]:
    """Of the same join filled in several wrong ways, the emptiest; the others say nothing new."""
    chosen: dict[tuple[str, tuple[int, ...]], Fault] = {}
    for fault in faults:
        known = chosen.setdefault((fault.kind, fault.steps), fault)
        if fault.count < known.count:
            chosen[fault.kind, fault.steps] = fault
    return {fault: faults[fault] for fault in chosen.values()}


def _unreachable(graph: Graph, step: int) -> PlacedFinding:
    message = f'no token can come to step "{graph.name(step)}"'
    return PlacedFinding("W_UNREACHABLE", (step_address(graph.name(step)),), message, "lead an arc to it, or remove it")


def _trap(graph: Graph, trap: Trap) -> PlacedFinding:
    name = graph.name(trap.step)
    others = [f'"{graph.name(step)}"' for step in trap.steps if step != trap.step]
    onward = f"it leads only to {listed(others)} and back" if others else "it leads only to itself"
    message = f'from step "{name}" no end can be reached: {onward}'
    hint = "add an arc that leaves, or guard the way back: a token whose arcs all stay silent ends"
    return PlacedFinding("W_NO_END", (step_address(name),), message, hint, trap.moves)


def _growth(graph: Graph, growth: Growth) -> PlacedFinding:
    name = graph.name(growth.step)
    around = " -> ".join(graph.name(step) for step in growth.cycle)
    message = f"each round of the cycle {around} adds tokens that no join takes back"
    hint = "join the branches before the cycle closes, or use mode: exclusive"
    return PlacedFinding(
        "W_TOKEN_GROWTH", (part_address(name, "next"), step_address(name)), message, hint, growth.moves
    )


def _fault(graph: Graph, fault: Fault, moves: tuple[Move, ...]) -> PlacedFinding:
    names = [graph.name(step) for step in fault.steps]
    addresses = (part_address(names[0], "join"), step_address(names[0]))
    match fault.kind:
        case "W_TOKEN_LEFT":
            message = f'a token of the fork can end at "{names[1]}" while its siblings wait at "{names[0]}"'
            hint = f'lead that branch to "{names[0]}", or say join: active if it may end elsewhere'
        case "W_JOIN_UNFILLED":
            join = graph[fault.steps[0]].join
            needed = join.count if join else 0
            message = f"this join waits for {needed} tokens, but a fork can send it only {fault.count}"
            hint = f"lower count to {fault.count}, or use join: all"
        case _ if len(names) == 1:
            message = f'tokens can wait at "{names[0]}" for ever'
            hint = "let the rest of the earlier group come to this join first, or use rest: ignore"
        case _:
            held = " and ".join(f'"{name}"' for name in names)
            message = f"tokens of one fork can wait for each other for ever at {held}"
            hint = "lead the branches to one join, or use join: any where the first one is enough"
    return PlacedFinding(fault.kind, addresses, message, hint, moves)
