"""A derivation of `token_outcomes` as a witness. It follows the tokens that matter for one fault."""

from __future__ import annotations

from noetl.language.proving.outcomes import (
    Derivation,
    EndedDerivation,
    Fault,
    Forked,
    Member,
    MovedDerivation,
    Normal,
    Outcome,
    RefusedDerivation,
)
from noetl.language.proving.token_outcomes import Node, TokenOutcomes
from noetl.language.proving.witness import Marking, Move, sent


def play(solved: TokenOutcomes, fault: Fault) -> tuple[Move, ...]:
    """The moves from the start to `fault`."""
    player = _Player(solved)
    player.follow(solved.root, fault)
    return tuple(player.marking.moves)


class _Player:
    def __init__(self, solved: TokenOutcomes) -> None:
        self._solved = solved
        self._graph = solved.graph
        self.marking = Marking(solved.graph)

    def follow(self, node: Node, outcome: Outcome) -> None:
        """Move the token of `node` until it has come to `outcome`; long chains need no recursion."""
        at: tuple[Node, Outcome] | None = (node, outcome)
        while at is not None:
            (step, grouped), outcome = at
            derivation = self._solved.outcomes(step, grouped).get(outcome)
            at = self._take(step, grouped, outcome, derivation) if derivation is not None else None

    def _take(self, step: int, grouped: bool, outcome: Outcome, derivation: Derivation) -> tuple[Node, Outcome] | None:
        match derivation:
            case EndedDerivation(firing):
                ending = "ends the execution" if firing.stops else "ends"
                self.marking.fire(step, (), (), f"{self._graph.name(step)} {ending}")
                return None
            case RefusedDerivation():
                self.marking.fire(step, (), (), f"{self._graph.name(step)} refuses its token")
                return None
            case MovedDerivation(firing, member):
                text = sent(self._graph, step, [member.target], firing.event)
                self.marking.fire(step, [member.way.address], [member.target], text)
                return self._next(member, grouped)
            case Forked():
                self._fork(step, derivation)
                return self._settle_group(grouped, outcome, derivation)

    def _next(self, member: Member, grouped: bool) -> tuple[Node, Outcome] | None:
        if grouped and self._graph[member.target].join is not None:
            return None
        return (member.target, grouped), member.outcome

    def _fork(self, step: int, forked: Forked) -> None:
        targets = [member.target for member in forked.members]
        arcs = list(dict.fromkeys(member.way.address for member in forked.members))
        self.marking.fire(step, arcs, targets, sent(self._graph, step, targets, forked.firing.event))

    def _settle_group(self, grouped: bool, outcome: Outcome, forked: Forked) -> tuple[Node, Outcome] | None:
        if forked.group is None:  # the fault lies inside one member; the others need not move
            member = next((m for m in forked.members if m.outcome == outcome), None)
            return self._next(member, True) if member else None
        if isinstance(outcome, Fault) and not forked.joined:
            for member in _concerned(forked.members, outcome):
                self._member(member)
            self._close(outcome)
            return None
        for member in forked.members:
            self._member(member)
        for join, _ in forked.joined:
            self.marking.join(join)
        return self._onward(grouped, outcome, forked.joined)

    def _onward(
        self, grouped: bool, outcome: Outcome, joined: tuple[tuple[int, Outcome], ...]
    ) -> tuple[Node, Outcome] | None:
        telling = [(join, came) for join, came in joined if came == outcome] or list(joined)
        for join, came in telling[1:]:
            self.follow((join, grouped), came)
        return ((telling[0][0], grouped), telling[0][1]) if telling else None

    def _member(self, member: Member) -> None:
        following = self._next(member, True)
        if following is not None:
            self.follow(*following)

    def _close(self, fault: Fault) -> None:
        names = [self._graph.name(step) for step in fault.steps]
        if fault.kind == "W_TOKEN_LEFT":
            self.marking.add_remark(fault.steps[0], f"{names[0]} runs without the token that ended at {names[1]}")
        elif fault.kind == "W_JOIN_UNFILLED":
            join = self._graph[fault.steps[0]].join
            needed = join.count if join else 0
            self.marking.add_remark(
                fault.steps[0], f"{names[0]} has {fault.count} of {needed} tokens and no other can come"
            )
        else:
            for at, name in zip(fault.steps, names, strict=True):
                others = " and ".join(other for other in names if other != name)
                self.marking.add_remark(at, f"{name} waits for the token held at {others}")


def _concerned(members: tuple[Member, ...], fault: Fault) -> list[Member]:
    """Members that show the fault: one for each join it names and for the step where a token ended."""
    chosen: dict[int, Member] = {}
    for wanted in fault.steps:
        for at, member in enumerate(members):
            came = member.outcome
            if at in chosen or not isinstance(came, Normal):
                continue
            if came.ended == wanted or any(join == wanted for join, _ in came.arrived):
                chosen[at] = member
                if fault.kind != "W_JOIN_UNFILLED":
                    break
    return [chosen[at] for at in sorted(chosen)]
