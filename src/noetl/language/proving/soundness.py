"""Soundness: deadlock, unfilled joins, tokens left behind, growth, traps; and how it was decided.

Linear checks first, then `token_outcomes` (groups settled level by level), then, only where the order of tokens
matters, the search of all markings; and an honest "not decided" when the budget ends first.

Growth (ADV-06): a fork grows when one of its own tokens comes back to it without leaving the group the fork opened, or
when the group sends more than one joined token on and one of them comes back. A cycle closed by the fork's own join
does not.
"""

from __future__ import annotations

import msgspec

from noetl.language.proving.arcs import Trap, traps, unreachable, walked
from noetl.language.proving.forks_and_joins import Fault, Normal, Outcome, caps, group_outcomes, settle_joins
from noetl.language.proving.graph import Firing, Graph, cycles, path
from noetl.language.proving.search import StateSearch
from noetl.language.proving.token_outcomes import OutOfBudget, TokenOutcomes
from noetl.language.proving.witness import Move, PlacedFinding, listed, play
from noetl.net.debug import part_address, step_address


class Growth(msgspec.Struct, frozen=True):
    step: int
    cycle: tuple[int, ...]
    moves: tuple[Move, ...]


def growing(graph: Graph, solved: TokenOutcomes | None) -> list[Growth]:
    """The forks of `graph` that make tokens without end, each with the cycle that does it."""
    reached = sorted(graph.reachable(graph.entry))
    edges = {index: list(graph[index].successors) for index in reached}
    found = []
    # Only a fork in a cycle can grow: outside of a cycle every fork opens one group for each token that arrives.
    for part in cycles(edges):
        forks = [index for index in part if graph[index].forks]
        if not forks:
            continue
        level = _Level(graph, set(part), forks)
        for fork in forks:
            around = level.return_to(fork)
            # The more expensive test comes last: it goes through the outcomes of the whole group.
            if around is None and solved is not None and _sends_several(graph, solved, fork):
                around = level.return_after_joining(fork)
            if around is not None:
                found.append(Growth(fork, tuple(around), _witness(graph, edges, around)))
    return found


class _Level:
    """Walks within one group, inside one component: a join of the group ends the walk, a nested fork is crossed
    to the joins its group may come to."""

    def __init__(self, graph: Graph, inside: set[int], forks: list[int]) -> None:
        self._graph = graph
        self._inside = inside
        self._crossed: dict[int, set[int]] = {fork: set() for fork in forks}
        changed = True
        # A fork may be inside the group of another fork. Where the outer group ends is known only after the inner
        # group.
        while changed:
            changed = False
            for fork in forks:
                reached = self._arrivals(fork)
                if reached - self._crossed[fork]:
                    self._crossed[fork] |= reached
                    changed = True

    def return_to(self, fork: int) -> list[int] | None:
        """The walk of one of the fork's own tokens back to it, inside its group."""
        edges = self._edges()
        for first in self._first_steps(fork):
            if first == fork:
                return [fork, fork]
            if self._graph[first].join is None:
                walk = path(edges, first, [fork])
                if walk is not None:
                    return [fork, *walk]
        return None

    def return_after_joining(self, fork: int) -> list[int] | None:
        """The walk of a joined token back to the fork, in the group around."""
        edges = self._edges()
        walks = (path(edges, join, [fork]) for join in sorted(self._crossed[fork]))
        return next(([fork, *walk] for walk in walks if walk is not None), None)

    def _first_steps(self, fork: int) -> list[int]:
        """First steps of the tokens of groups that `fork` opens."""
        firings = [f for f in self._graph[fork].firings if f.most_tokens >= 2]
        return [t for f in firings for way in f.ways for t in way.targets if t in self._inside]

    def _edges(self) -> dict[int, list[int]]:
        """Steps that run one after another within a level."""
        edges: dict[int, list[int]] = {}
        for index in self._inside:
            singles = [t for f in self._graph[index].firings for t in _single_targets(f)]
            # A join is not a step within the level: a token that arrives there leaves the group.
            plain = [t for t in singles if t in self._inside and self._graph[t].join is None]
            edges[index] = plain + sorted(self._crossed.get(index, ()))
        return edges

    def _arrivals(self, fork: int) -> set[int]:
        edges = self._edges()
        seen = set(self._first_steps(fork))
        waiting = [t for t in seen if self._graph[t].join is None]
        found = {t for t in seen if self._graph[t].join is not None}
        while waiting:
            index = waiting.pop()
            for firing in self._graph[index].firings:
                found |= {t for t in _single_targets(firing) if t in self._inside and self._graph[t].join is not None}
            for target in edges[index]:
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return found


def _single_targets(firing: Firing) -> list[int]:
    return [target for way in firing.alone for target in way.targets]


def _sends_several(graph: Graph, solved: TokenOutcomes, fork: int) -> bool:
    """Whether one group of `fork` can send two joined tokens on."""

    def enter(target: int) -> list[Outcome]:
        if graph[target].join is not None:
            return [Normal(((target, 1),))]
        return list(solved.outcomes(target, True))

    limits = caps(graph)
    for firing in graph[fork].firings:
        if firing.most_tokens >= 2:
            # No budget is needed here: `solved` has examined the same combinations within its own budget.
            for outcome, _ in group_outcomes(firing, enter, limits, lambda _work: None):
                meeting = settle_joins(graph, outcome) if isinstance(outcome, Normal) else None
                if meeting is not None and len(meeting.fired + meeting.maybe) >= 2:
                    return True
    return False


def _witness(graph: Graph, edges: dict[int, list[int]], around: list[int]) -> tuple[Move, ...]:
    """From the entry to the fork, then around the cycle by plain arcs."""
    fork = around[0]
    walk = [fork] if fork == graph.entry else path(edges, graph.entry, [fork]) or [fork]
    for stop in around[1:]:
        walk += (path(edges, walk[-1], [stop]) or [walk[-1], stop])[1:]
    return walked(graph, walk)


# One marking of the search costs as much time as this many combinations of outcomes.
_PRICE = 200


class Soundness(msgspec.Struct, frozen=True, kw_only=True):
    """The soundness of a net, as far as it is known."""

    unreachable: tuple[int, ...] = ()
    traps: tuple[Trap, ...] = ()
    growth: tuple[Growth, ...] = ()
    # Each fault with the moves that lead to it.
    faults: dict[Fault, tuple[Move, ...]] = {}
    # Why soundness stays undecided. Empty if it is decided.
    undecided: str = ""
    # Combinations that the equations examined.
    work: int = 0
    # Markings that the search visited. 0 if it was not needed.
    states: int = 0


def judge(graph: Graph, budget: int) -> Soundness:
    """Everything that is known about the soundness of `graph`."""
    solved, undecided = _solve_groups(graph, budget)
    found, states = (_faults(solved), 0) if solved is not None else ({}, 0)
    # The search tries every order of moves, which is expensive, so it runs only where the order of tokens can matter.
    if undecided or _may_block(graph) or _is_doubtful(graph, found):
        found, states, undecided = _search_faults(graph, budget)
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


def _solve_groups(graph: Graph, budget: int) -> tuple[TokenOutcomes | None, str]:
    try:
        return TokenOutcomes(graph, budget), ""
    except OutOfBudget:
        return None, _spent(budget)


def _faults(solved: TokenOutcomes) -> dict[Fault, tuple[Move, ...]]:
    outcomes = solved.outcomes(*solved.root)
    return {outcome: play(solved, outcome) for outcome in outcomes if isinstance(outcome, Fault)}


def _search_faults(graph: Graph, budget: int) -> tuple[dict[Fault, tuple[Move, ...]], int, str]:
    search = StateSearch(graph, budget // _PRICE)
    # A fault is reported even if the budget ended: then the net is known to be unsound.
    return search.faults, search.states, "" if search.finished or search.faults else _spent(budget)


def _spent(budget: int) -> str:
    return f"the net has more states than the budget of {budget} allows to visit"


def _is_doubtful(graph: Graph, found: dict[Fault, tuple[Move, ...]]) -> bool:
    """Whether tokens withdraw one another, so that `token_outcomes` may have found a fault that cannot happen: any
    fault if arcs have cancel lists, a deadlock if a join with `rest: cancel` may still resolve it."""
    dissolving = any(step.join is not None and step.join.rest == "cancel" for step in graph.steps)
    return bool(found) and (bool(graph.cancelled) or (dissolving and any(f.kind == "W_DEADLOCK" for f in found)))


def _may_block(graph: Graph) -> bool:
    """Whether a join with `rest: block` may hold back the tokens that it waits for, which `token_outcomes` does not
    see. That takes two such joins, or one join that both a group and a group forked inside it can reach."""
    blocking = [s.index for s in graph.steps if s.join is not None and s.join.rest == "block"]
    if len(blocking) != 1:
        return bool(blocking)
    ahead = graph.leading_to(set(blocking))
    forks = [s.index for s in graph.steps if s.forks and s.index in ahead]
    after = {fork: graph.reachable(*graph[fork].successors) for fork in forks}
    return any(other in after[fork] for fork in forks for other in forks)


def _traps(graph: Graph, solved: TokenOutcomes | None, faulty: bool) -> tuple[Trap, ...]:
    """Components that cannot be left; or the entry itself, if every round of some cycle needs a branch that never
    ends."""
    found = traps(graph)
    if found or solved is None or faulty or solved.can_end:
        return tuple(found)
    return (Trap(graph.entry, (graph.entry,), ()),)


# The findings of soundness for an author: each fault as text, with a hint.

# The findings that make a net unsound; the others are advice.
UNSOUND = frozenset({"W_DEADLOCK", "W_JOIN_UNFILLED", "W_TOKEN_LEFT", "W_NO_END", "W_TOKEN_GROWTH", "W_UNREACHABLE"})


def soundness_findings(graph: Graph, result: Soundness) -> list[PlacedFinding]:
    """One finding for each fault, and a note if the analysis is incomplete."""
    found = [_unreachable(graph, step) for step in result.unreachable]
    found += [_trap_finding(graph, trap) for trap in result.traps]
    found += [_growth(graph, growth) for growth in result.growth]
    found += [_fault(graph, fault, moves) for fault, moves in _worst_faults(result.faults).items()]
    if result.undecided:
        message = f"whether this workflow is sound is not decided: {result.undecided}"
        found.append(PlacedFinding("I_NOT_DECIDED", (step_address(graph.name(graph.entry)),), message))
    return found


def _worst_faults(faults: dict[Fault, tuple[Move, ...]]) -> dict[Fault, tuple[Move, ...]]:
    """If the same join is filled in several wrong ways, only the one with the fewest tokens is reported."""
    chosen: dict[tuple[str, tuple[int, ...]], Fault] = {}
    for fault in faults:
        known = chosen.setdefault((fault.kind, fault.steps), fault)
        if fault.count < known.count:
            chosen[fault.kind, fault.steps] = fault
    return {fault: faults[fault] for fault in chosen.values()}


def _unreachable(graph: Graph, step: int) -> PlacedFinding:
    message = f'step "{graph.name(step)}" never runs: no token can reach it'
    return PlacedFinding("W_UNREACHABLE", (step_address(graph.name(step)),), message, "lead an arc to it, or remove it")


def _trap_finding(graph: Graph, trap: Trap) -> PlacedFinding:
    name = graph.name(trap.step)
    others = [f'"{graph.name(step)}"' for step in trap.steps if step != trap.step]
    onward = f"it leads only to {listed(others)} and back" if others else "it leads only to itself"
    message = f'from step "{name}" no end can be reached: {onward}'
    hint = (
        "add an arc that leads on, or a condition (when) to the way back: where no arc of a step holds, its token ends"
    )
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
            message = f'tokens can wait at "{names[0]}" forever'
            hint = "let the rest of the earlier group come to this join first, or use rest: ignore"
        case _:
            held = " and ".join(f'"{name}"' for name in names)
            message = f"tokens of one fork can wait for each other forever at {held}"
            hint = "lead the branches to one join, or use join: any where the first one is enough"
    return PlacedFinding(fault.kind, addresses, message, hint, moves)
