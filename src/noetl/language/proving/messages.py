"""What soundness says to an author: each fault in words, with the way out."""

from __future__ import annotations

from noetl.language.proving.graph import Graph
from noetl.language.proving.growth import Growth
from noetl.language.proving.outcomes import Fault
from noetl.language.proving.reachability import Trap
from noetl.language.proving.soundness import Soundness
from noetl.language.proving.source_positions import PlacedFinding
from noetl.language.proving.witness import Move, listed
from noetl.net.debug import part_address, step_address

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
