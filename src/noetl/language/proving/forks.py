"""The outcomes of a fork group, its members taken one after another.

Tokens of a group meet only at joins, and what a join does depends on who arrived, not when (`meeting`). So one
order of the members stands for all interleavings: the partial-order reduction that keeps a 40-way fork small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.language.proving.derivations import Member
from noetl.language.proving.graph import Firing, StepEnding
from noetl.language.proving.outcomes import NOTHING, Outcome, together

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
