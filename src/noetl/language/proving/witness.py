"""Witnesses: a finding as a firing sequence, as text and as moves that a screen can animate (beyond.md §2). Also the
simulation that makes one.

A witness moves only the tokens that the finding is about. `Marking` is what it moves: steps with the tokens they hold,
in the order they came. Places of a finding lead from an address of the net to the line its author wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.base.diagnostics import CODES, Diagnostic, DiagnosticPosition
from noetl.language.proving import forks_and_joins
from noetl.language.proving.graph import Graph
from noetl.language.proving.token_outcomes import Node, TokenOutcomes
from noetl.net.debug import DebugMap

# Names listed in one text before "and n more".
_NAMED = 4


class Move(msgspec.Struct, frozen=True):
    """One firing: the step whose run ended, the arcs it took (addresses of the debug map), the tokens afterwards."""

    step: str
    arcs: tuple[str, ...]
    tokens: tuple[str, ...]
    text: str


class Marking:
    """Tokens on steps, and the moves made so far."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tokens: list[int] = [graph.entry]
        self.moves: list[Move] = []

    def fire(self, step: int, arcs: Sequence[str], targets: Sequence[int], text: str) -> None:
        """Take one token off `step` and put one on each of `targets`."""
        if step in self._tokens:
            self._tokens.remove(step)
        self._tokens += targets
        self._note(step, arcs, text)

    def join(self, step: int) -> None:
        """All tokens held at a join become the one that runs it."""
        self._tokens = [token for token in self._tokens if token != step] + [step]
        self._note(step, (), f"{self._graph.name(step)} joins them and runs")

    def add_remark(self, step: int, text: str) -> None:
        """Add a remark; nothing moves."""
        self._note(step, (), text)

    def _note(self, step: int, arcs: Sequence[str], text: str) -> None:
        tokens = tuple(self._graph.name(token) for token in self._tokens)
        self.moves.append(Move(self._graph.name(step), tuple(arcs), tokens, text))


def listed(names: Sequence[str]) -> str:
    """The names in one line; a long list is shortened to the first names and "and n more"."""
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return ", ".join(names)


def sent(graph: Graph, step: int, targets: Sequence[int], event: str) -> str:
    """The text of a firing: `a -> b, c`, with the event where it is not the usual one."""
    reason = "" if event in ("step.done", "loop.done", "case") else f" on {event}"
    return f"{graph.name(step)} -> {listed([graph.name(target) for target in targets])}{reason}"


# A derivation of `token_outcomes` as a witness. It follows the tokens that matter for one fault.


def play(solved: TokenOutcomes, fault: forks_and_joins.Fault) -> tuple[Move, ...]:
    """The moves from the start to `fault`."""
    player = _Player(solved)
    player.follow(solved.root, fault)
    return tuple(player.marking.moves)


class _Player:
    def __init__(self, solved: TokenOutcomes) -> None:
        self._solved = solved
        self._graph = solved.graph
        self.marking = Marking(solved.graph)

    def follow(self, node: Node, outcome: forks_and_joins.Outcome) -> None:
        """Move the token of `node` until it has come to `outcome`; long chains need no recursion."""
        at: tuple[Node, forks_and_joins.Outcome] | None = (node, outcome)
        while at is not None:
            (step, grouped), outcome = at
            derivation = self._solved.outcomes(step, grouped).get(outcome)
            at = self._take(step, grouped, outcome, derivation) if derivation is not None else None

    def _take(
        self, step: int, grouped: bool, outcome: forks_and_joins.Outcome, derivation: forks_and_joins.Derivation
    ) -> tuple[Node, forks_and_joins.Outcome] | None:
        match derivation:
            case forks_and_joins.EndedDerivation(firing):
                ending = "ends the execution" if firing.stops else "ends"
                self.marking.fire(step, (), (), f"{self._graph.name(step)} {ending}")
                return None
            case forks_and_joins.RefusedDerivation():
                self.marking.fire(step, (), (), f"{self._graph.name(step)} refuses its token")
                return None
            case forks_and_joins.MovedDerivation(firing, member):
                text = sent(self._graph, step, [member.target], firing.event)
                self.marking.fire(step, [member.way.address], [member.target], text)
                return self._next(member, grouped)
            case forks_and_joins.Forked():
                self._fork(step, derivation)
                return self._settle_group(grouped, outcome, derivation)

    def _next(self, member: forks_and_joins.Member, grouped: bool) -> tuple[Node, forks_and_joins.Outcome] | None:
        if grouped and self._graph[member.target].join is not None:
            return None
        return (member.target, grouped), member.outcome

    def _fork(self, step: int, forked: forks_and_joins.Forked) -> None:
        targets = [member.target for member in forked.members]
        arcs = list(dict.fromkeys(member.way.address for member in forked.members))
        self.marking.fire(step, arcs, targets, sent(self._graph, step, targets, forked.firing.event))

    def _settle_group(
        self, grouped: bool, outcome: forks_and_joins.Outcome, forked: forks_and_joins.Forked
    ) -> tuple[Node, forks_and_joins.Outcome] | None:
        # The fault is inside one member, so the other members need not move.
        if forked.group is None:
            member = next((m for m in forked.members if m.outcome == outcome), None)
            return self._next(member, True) if member else None
        if isinstance(outcome, forks_and_joins.Fault) and not forked.joined:
            for member in _fault_members(forked.members, outcome):
                self._member(member)
            self._close(outcome)
            return None
        for member in forked.members:
            self._member(member)
        for join, _ in forked.joined:
            self.marking.join(join)
        return self._next_node(grouped, outcome, forked.joined)

    def _next_node(
        self, grouped: bool, outcome: forks_and_joins.Outcome, joined: tuple[tuple[int, forks_and_joins.Outcome], ...]
    ) -> tuple[Node, forks_and_joins.Outcome] | None:
        telling = [(join, came) for join, came in joined if came == outcome] or list(joined)
        # The caller moves the first of them last, so that the witness ends at the place of the fault.
        for join, came in telling[1:]:
            self.follow((join, grouped), came)
        return ((telling[0][0], grouped), telling[0][1]) if telling else None

    def _member(self, member: forks_and_joins.Member) -> None:
        following = self._next(member, True)
        if following is not None:
            self.follow(*following)

    def _close(self, fault: forks_and_joins.Fault) -> None:
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


def _fault_members(
    members: tuple[forks_and_joins.Member, ...], fault: forks_and_joins.Fault
) -> list[forks_and_joins.Member]:
    """Members that show the fault: one for each join it names and for the step where a token ended."""
    chosen: dict[int, forks_and_joins.Member] = {}
    for wanted in fault.steps:
        for at, member in enumerate(members):
            came = member.outcome
            if at in chosen or not isinstance(came, forks_and_joins.Normal):
                continue
            if came.ended == wanted or any(join == wanted for join, _ in came.arrived):
                chosen[at] = member
                # Of an unfilled join, all tokens that arrived are shown: their number is the finding.
                if fault.kind != "W_JOIN_UNFILLED":
                    break
    return [chosen[at] for at in sorted(chosen)]


class PlacedFinding(msgspec.Struct, frozen=True):
    """A finding before it has a line: `addresses` are tried in order, since not every part was written."""

    code: str
    addresses: tuple[str, ...]
    message: str
    hint: str = ""
    moves: tuple[Move, ...] = ()

    def diagnostic(self, debug: DebugMap) -> Diagnostic:
        assert self.code in CODES
        place = placed(debug, *self.addresses)
        texts = tuple(move.text for move in self.moves)
        return Diagnostic(self.code, place.path, place.span, self.message, self.hint, texts)


def placed(debug: DebugMap, *addresses: str) -> DiagnosticPosition:
    """The first of `addresses` that has an origin; else the nearest enclosing element that has one."""
    for address in addresses:
        while address:
            if address in debug:
                return DiagnosticPosition(debug[address].path, debug[address].span)
            address = address.rpartition("/")[0]
    return DiagnosticPosition()


# Reasons: why a cycle ends, as far as it shows in the net.


class CycleReason(msgspec.Struct, frozen=True):
    """`cycle` lists its steps (or `step.task` for a pipeline) in text order; `why` names what ends it."""

    cycle: tuple[str, ...]
    why: str
