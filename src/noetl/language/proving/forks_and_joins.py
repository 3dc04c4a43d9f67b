"""What the joins of one fork group do once all its tokens have arrived or ended (O-01).

Within a group the order of arrivals changes nothing: `any` and `{count: n}` fire once, `active` never waits for a
token that is held at another join of the group, and `all` waits for everyone. So the final arrivals tell all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from noetl.language.proving.graph import Firing, Graph, StepEnding
from noetl.language.proving.outcomes import NOBODY, NOTHING, Fault, Member, Normal, Outcome, together
from noetl.net.routing import Join, JoinMode


class Meeting(msgspec.Struct, frozen=True):
    """What comes of the joins of a group. A join that fails unfilled ends its tokens as failed (O-01); the failure
    itself is not followed further."""

    fired: tuple[int, ...]  # joins that run, once for the group
    faults: tuple[Fault, ...] = ()
    stuck: bool = False  # some wait for each other for ever
    maybe: tuple[int, ...] = ()  # joins that run unless another one withdrew their tokens first


def needed(join: Join) -> int:
    """How many arrivals of one group a join tells apart."""
    return max(join.count or 1, 1) if join.mode is JoinMode.COUNT else 1


def caps(graph: Graph) -> dict[int, int]:
    return {step.index: needed(step.join) for step in graph.steps if step.join is not None}


def settle_joins(graph: Graph, group: Normal) -> Meeting:
    """How the joins of a group settle, given where its tokens came to."""
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
        fired += waiting
        if group.ended != NOBODY:
            faults.append(Fault("W_TOKEN_LEFT", (waiting[0], group.ended)))
    elif waiting:
        faults.append(Fault("W_DEADLOCK", tuple(waiting)))
    return Meeting(tuple(fired), tuple(faults), stuck=len(waiting) > 1)


def _cancels(graph: Graph, at: int, count: int) -> bool:
    join = graph[at].join
    return join is not None and join.rest == "cancel" and join.mode is not JoinMode.ALL and count >= needed(join)


def _withdrawing(graph: Graph, group: Normal, cancelling: list[int]) -> Meeting:
    """A join with `rest: cancel` fires as soon as it is filled and ends the group: nobody waits any longer, and the
    other joins have run only if they were quicker. `all` never was: it waits for the tokens that filled this one."""
    quicker = [
        at
        for at, count in group.arrived
        if (join := graph[at].join) is not None and join.mode is not JoinMode.ALL and count >= needed(join)
    ]
    first = cancelling[0]
    return Meeting((first,), maybe=tuple(at for at in quicker if at != first))


# The outcomes of a fork group, its members taken one after another.

Enter = Callable[[int], list[Outcome]]  # the outcomes of a token that comes to a step as a group's member
Spend = Callable[[int], None]  # counts the work; raises when the budget is used up
State = tuple[int, Outcome]  # tokens made so far (0, 1, or 2 for more), and what they came to
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
            layer = {state: (state, ()) for state in layers[-1]}
        spend(len(layers[-1]) * len(bundle))
        for state in layers[-1]:
            for outcome, members in bundle.items():
                for both in together(state[1], outcome, caps):
                    layer.setdefault((min(state[0] + way.tokens, 2), both), (state, members))
        layers.append(layer)
    for state in layers[-1]:
        if state[0] == 2:
            yield state[1], lambda state=state: _members(layers, state)  # type: ignore[misc]


def _bundle(way: StepEnding, enter: Enter, caps: dict[int, int], spend: Spend) -> Bundle:
    """What the tokens of one arc come to together; identical tokens soon add nothing new (arc.spec.tokens)."""
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
