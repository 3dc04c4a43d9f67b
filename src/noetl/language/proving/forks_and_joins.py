"""Outcomes of fork groups: what the joins of one group do once all its tokens have arrived or ended (O-01).

Within a group the order of arrivals changes nothing: `any` and `{count: n}` fire once, `active` never waits for a
token that is held at another join of the group, and `all` waits for every token. So only the final arrivals matter.

The outcome of a token, with all its descendants, is small on purpose: which joins of the group were reached (counted up
to the number that the join distinguishes), and one step at which a token ended by itself. Tokens of equal outcome are
analysed once; that is the whole reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from noetl.language.proving.graph import Firing, Graph, StepEnding
from noetl.net.routing import Join, JoinMode

NO_STEP = -1


class Normal(msgspec.Struct, frozen=True):
    """All descendants arrived at joins or ended."""

    # Joins of the group with how many tokens came, counted up to the number that the join distinguishes: that keeps
    # outcomes few.
    arrived: tuple[tuple[int, int], ...] = ()
    # A step where a token ended by itself (not denied, not dropped).
    ended: int = NO_STEP
    # A token was withdrawn by a join with `rest: cancel` of its own group or of an outer one, or with the whole
    # execution.
    withdrawn: bool = False


class Stop(msgspec.Struct, frozen=True):
    """The execution was ended explicitly. Tokens that waited then are no deadlock; earlier faults stay faults."""


class Fault(msgspec.Struct, frozen=True):
    """An unsound behaviour: `kind` is the code of the diagnostic, `steps` are the steps it is about."""

    kind: str
    steps: tuple[int, ...]
    count: int = 0


Outcome = Normal | Stop | Fault

NOTHING = Normal()
WITHDRAWN = Normal(withdrawn=True)
STOP = Stop()


def together(one: Outcome, other: Outcome, caps: dict[int, int]) -> Iterator[Outcome]:
    """The outcomes of two independent tokens of one group taken together."""
    if isinstance(one, Stop) or isinstance(other, Stop):
        yield STOP
        # It is not a deadlock if another token ends the execution.
        yield from (o for o in (one, other) if isinstance(o, Fault) and o.kind != "W_DEADLOCK")
        return
    if isinstance(one, Fault) or isinstance(other, Fault):
        yield from (o for o in (one, other) if isinstance(o, Fault))
        return
    arrived = _add(one.arrived, other.arrived, caps)
    ends = {end for end in (one.ended, other.ended) if end != NO_STEP}
    # One outcome for each end, not one with all of them: a finding names one step, and sets of ends would multiply
    # outcomes.
    for ended in sorted(ends) or (NO_STEP,):
        yield Normal(arrived, ended, one.withdrawn or other.withdrawn)


def _add(
    one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...], caps: dict[int, int]
) -> tuple[tuple[int, int], ...]:
    if not one or not other:
        return one or other
    counts = dict(one)
    for join, count in other:
        # Counted up to what the join distinguishes: outcomes stay finite, so cycles are solved in finitely many rounds.
        counts[join] = min(counts.get(join, 0) + count, caps[join])
    return tuple(sorted(counts.items()))


def product(parts: Iterable[Iterable[Outcome]], caps: dict[int, int]) -> set[Outcome]:
    """Every combined outcome of independent tokens; empty if one of the tokens cannot end at all."""
    found: set[Outcome] = {NOTHING}
    for part in parts:
        found = {both for one in found for other in part for both in together(one, other, caps)}
    return found


# Derivations: how an outcome came about, kept so that a finding can be shown as a sequence of moves.


class EndedDerivation(msgspec.Struct, frozen=True):
    """The end of the run created no token, or ended the execution."""

    firing: Firing


class RefusedDerivation(msgspec.Struct, frozen=True):
    """Admission denied or parked the token, or another arc withdrew it."""


class Member(msgspec.Struct, frozen=True):
    """One token created by a firing, and its outcome."""

    way: StepEnding
    target: int
    outcome: Outcome


class MovedDerivation(msgspec.Struct, frozen=True):
    """The end of the run created one token."""

    firing: Firing
    member: Member


class Forked(msgspec.Struct, frozen=True):
    """The end of the run opened a fork group."""

    firing: Firing
    members: tuple[Member, ...]
    # How the tokens ended together. None if one member's fault or stop decides the outcome.
    group: Normal | None = None
    # Joins that fired, each with the outcome of its run.
    joined: tuple[tuple[int, Outcome], ...] = ()


Derivation = EndedDerivation | RefusedDerivation | MovedDerivation | Forked
Derived = dict[Outcome, Derivation]


class SettledJoins(msgspec.Struct, frozen=True):
    """How the joins of a group end. An unfilled join that fails ends its tokens as failed (O-01); the failure itself is
    not analysed further."""

    # Joins that run once for the group.
    fired: tuple[int, ...]
    faults: tuple[Fault, ...] = ()
    # Some tokens wait for each other forever.
    stuck: bool = False
    # Joins that run unless another one has withdrawn their tokens.
    maybe: tuple[int, ...] = ()


def needed(join: Join) -> int:
    """How many arrivals of one group a join distinguishes."""
    return max(join.count or 1, 1) if join.mode is JoinMode.COUNT else 1


def caps(graph: Graph) -> dict[int, int]:
    return {step.index: needed(step.join) for step in graph.steps if step.join is not None}


def settle_joins(graph: Graph, group: Normal) -> SettledJoins:
    """How the joins of a group end, given where its tokens arrived."""
    cancelling = [at for at, count in group.arrived if _cancels(graph, at, count)]
    if cancelling:
        return _withdrawing(graph, group, cancelling)
    fired: list[int] = []
    waiting: list[int] = []
    faults: list[Fault] = []
    for at, count in group.arrived:
        join = graph[at].join
        assert join is not None
        if join.mode is JoinMode.ALL:
            waiting.append(at)
        elif count >= needed(join):
            fired.append(at)
        else:
            faults.append(Fault("W_JOIN_UNFILLED", (at,), count))
    if len(waiting) == 1:
        # `all` fires when no other token of the group is left, ended tokens included (O-01). The finding is that one of
        # them never came, not that the join waits.
        fired += waiting
        if group.ended != NO_STEP:
            faults.append(Fault("W_TOKEN_LEFT", (waiting[0], group.ended)))
    # Two `all` joins block each other: each waits for the tokens that the other holds.
    elif waiting:
        faults.append(Fault("W_DEADLOCK", tuple(waiting)))
    return SettledJoins(tuple(fired), tuple(faults), stuck=len(waiting) > 1)


def _cancels(graph: Graph, at: int, count: int) -> bool:
    join = graph[at].join
    return join is not None and join.rest == "cancel" and join.mode is not JoinMode.ALL and count >= needed(join)


def _withdrawing(graph: Graph, group: Normal, cancelling: list[int]) -> SettledJoins:
    """A join with `rest: cancel` fires as soon as it is filled and ends the group: no token waits any longer, and the
    other joins have run only if they were filled before. An `all` join never is: it waits for the tokens that filled
    this one."""
    quicker = [
        at
        for at, count in group.arrived
        if (join := graph[at].join) is not None and join.mode is not JoinMode.ALL and count >= needed(join)
    ]
    first = cancelling[0]
    return SettledJoins((first,), maybe=tuple(at for at in quicker if at != first))


# The outcomes of a fork group, computed member by member.

# Returns the outcomes of a group member that enters a step.
Enter = Callable[[int], list[Outcome]]
# Counts work units. Raises when the budget is used up.
Spend = Callable[[int], None]
# Number of tokens so far (2 means two or more) and their combined outcome.
State = tuple[int, Outcome]
Layer = dict[State, tuple[State, tuple[Member, ...]]]
Bundle = dict[Outcome, tuple[Member, ...]]


def group_outcomes(
    firing: Firing, enter: Enter, caps: dict[int, int], spend: Spend
) -> Iterator[tuple[Outcome, Callable[[], tuple[Member, ...]]]]:
    """Each outcome of the group that `firing` opens, with a function giving members that lead to it."""
    start: State = (0, NOTHING)
    layers: list[Layer] = [{start: (start, ())}]
    for way in firing.ways:
        bundle = _bundle(way, enter, caps, spend)
        layer: Layer = {}
        if way in firing.optional:
            # The arc may not fire: every state so far is also one after it.
            layer = {state: (state, ()) for state in layers[-1]}
        spend(len(layers[-1]) * len(bundle))
        for state in layers[-1]:
            for outcome, members in bundle.items():
                for both in together(state[1], outcome, caps):
                    # 2 means "several": it matters only whether a group was opened, not how large it is.
                    layer.setdefault((min(state[0] + way.tokens, 2), both), (state, members))
        layers.append(layer)
    for state in layers[-1]:
        if state[0] == 2:
            # A function, since members are needed only for the few outcomes that are new. `state=state`: a closure
            # would see the last one.
            yield state[1], lambda state=state: _members(layers, state)  # type: ignore[misc]


def _bundle(way: StepEnding, enter: Enter, caps: dict[int, int], spend: Spend) -> Bundle:
    """The combined outcomes of the tokens of one arc; identical tokens soon add nothing new (arc.spec.tokens)."""
    single: Bundle = {}
    for target in way.targets:
        for outcome in enter(target):
            single.setdefault(outcome, (Member(way, target, outcome),))
    bundle = single
    for _ in range(way.tokens - 1):
        spend(len(bundle) * len(single))
        more: Bundle = {}
        for one, members in bundle.items():
            for other, added in single.items():
                for both in together(one, other, caps):
                    more.setdefault(both, members + added)
        # One more token added no outcome, so a hundred more add none either (arc.spec.tokens).
        if more.keys() == bundle.keys():
            break
        bundle = more
    return bundle


def _members(layers: list[Layer], state: State) -> tuple[Member, ...]:
    found: list[Member] = []
    for layer in reversed(layers[1:]):
        state, members = layer[state]
        found[:0] = members
    return tuple(found)
