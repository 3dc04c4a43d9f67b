"""Fires joins until none can fire: joins fire as soon as they can, so this follows every move of the search (O-01)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.language.proving.forks_and_joins import NO_STEP, Fault, needed
from noetl.language.proving.graph import Graph
from noetl.net.routing import JoinMode


class Settling:
    """Fires joins in a marking. The outermost level of a marking is not a fork group."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        active = any(step.join is not None and step.join.mode is JoinMode.ACTIVE for step in graph.steps)
        # Only `active` joins need to know which tokens may still arrive; the table costs the square of the steps.
        self._reach = {s.index: graph.reachable(*s.successors) for s in graph.steps} if active else {}

    def settle(self, root: TokenGroup) -> tuple[TokenGroup, list[Fault]]:
        """`root` with every join fired that can fire, and the faults seen on the way."""
        faults: list[Fault] = []
        # A join that fires sends a token on, and that token may fill a join of the outer level.
        while True:
            after = root._replace(items=ordered(self._level(root, root, faults, outer=True)[0]))
            if after == root:
                return root, faults
            root = after

    def _level(
        self, group: TokenGroup, root: TokenGroup, faults: list[Fault], *, outer: bool
    ) -> tuple[list[Item], TokenGroup]:
        """The items of a level after its inner groups and then its own joins have fired."""
        items: list[Item] = []
        ended = group.ended
        for item in group.items:
            if isinstance(item, MarkedToken):
                items.append(item)
                continue
            sent, inner = self._settled_group(item, root, faults)
            items += sent
            if inner.items:
                items.append(inner)
            # No join ran, and no token is left: the outer level sees the whole group as one token that ended.
            elif not inner.fired and not sent and inner.ended != NO_STEP and ended == NO_STEP:
                ended = inner.ended
        return items, group._replace(ended=NO_STEP if outer else ended)

    def _settled_group(self, group: TokenGroup, root: TokenGroup, faults: list[Fault]) -> tuple[list[Item], TokenGroup]:
        """One group: the tokens that its joins send to the outer level, and what is left of the group."""
        items, group = self._level(group, root, faults, outer=False)
        group = group._replace(items=ordered(items))
        # One join at a time: the tokens it takes decide what the others can still do. `settle` calls again for them.
        for join in sorted({i.step for i in group.items if isinstance(i, MarkedToken) and i.waits}):
            if join in group.fired:
                # The join has run for this group: a late token is dropped, as the engine does.
                return [], self._drop(group, join)
            if self._can_fire(group, join, root):
                return [MarkedToken(join)], self._fire(group, join, faults)
        return [], self._fail_unfilled(group, faults)

    def _can_fire(self, group: TokenGroup, join: int, root: TokenGroup) -> bool:
        rule = self._graph[join].join
        assert rule is not None
        # Another group has passed the join and still has running tokens: this one waits for them.
        if rule.rest == "block" and holders(root, join) > 0:
            return False
        waiting = sum(i == MarkedToken(join, waits=True) for i in group.items)
        others = [i for i in group.items if i != MarkedToken(join, waits=True)]
        match rule.mode:
            case JoinMode.ALL:
                return not others
            case JoinMode.ACTIVE:
                return not any(self._may_come(item, join) for item in others)
            case _:
                return waiting >= needed(rule)

    def _may_come(self, item: Item, join: int) -> bool:
        """Whether a token of the group may still arrive. A token held at another join of the group may not."""
        if isinstance(item, MarkedToken):
            return not item.waits and (item.step == join or join in self._reach[item.step])
        return any(join in self._reach[token.step] or token.step == join for token in tokens(item))

    def _fire(self, group: TokenGroup, join: int, faults: list[Fault]) -> TokenGroup:
        rule = self._graph[join].join
        assert rule is not None
        if rule.mode is JoinMode.ALL and group.ended != NO_STEP:
            faults.append(Fault("W_TOKEN_LEFT", (join, group.ended)))
        left = self._drop(group, join)
        if rule.rest == "cancel":
            left = left._replace(items=())
        return left._replace(fired=tuple(sorted({*left.fired, join})))

    def _drop(self, group: TokenGroup, join: int) -> TokenGroup:
        return group._replace(items=tuple(i for i in group.items if i != MarkedToken(join, waits=True)))

    def _fail_unfilled(self, group: TokenGroup, faults: list[Fault]) -> TokenGroup:
        """Record a fault for a join that can no longer be filled, once every token of the group waits."""
        held = [i for i in group.items if isinstance(i, MarkedToken) and i.waits]
        # A token that still runs may arrive and fill the join.
        if len(held) < len(group.items):
            return group
        for token in held:
            rule = self._graph[token.step].join
            count = held.count(token)
            if rule is not None and rule.mode is JoinMode.COUNT and count < needed(rule):
                faults.append(Fault("W_JOIN_UNFILLED", (token.step,), count))
                return self._drop(group, token.step)
        return group


# Markings of the search: tokens in nested fork groups. Markings that differ only in order are equal.


class MarkedToken(NamedTuple):
    """`waits`: held at a join, not running."""

    step: int
    waits: bool = False


class TokenGroup(NamedTuple):
    """A live fork group. `fired`: joins that already ran for it; `ended`: the step where a token of it ended."""

    items: tuple[MarkedToken | TokenGroup, ...]
    fired: tuple[int, ...] = ()
    ended: int = NO_STEP


Item = MarkedToken | TokenGroup


def sort_key(item: Item) -> tuple[object, ...]:
    if isinstance(item, MarkedToken):
        return (0, item.step, item.waits)
    return (1, item.fired, item.ended, tuple(sort_key(inner) for inner in item.items))


def ordered(items: list[Item] | tuple[Item, ...]) -> tuple[Item, ...]:
    return tuple(sorted(items, key=sort_key))


def tokens(group: TokenGroup) -> Iterator[MarkedToken]:
    """Every token of the group and of the groups inside it."""
    for item in group.items:
        if isinstance(item, MarkedToken):
            yield item
        else:
            yield from tokens(item)


def holders(group: TokenGroup, join: int) -> int:
    """How many live groups, at any depth, have fired `join` and still have running tokens (rest: block)."""
    inner = sum(holders(item, join) for item in group.items if isinstance(item, TokenGroup))
    return inner + (1 if join in group.fired else 0)


def withdraw_tokens(group: TokenGroup, steps: frozenset[int]) -> TokenGroup:
    """The group after tokens at `steps` were withdrawn."""
    kept: list[Item] = []
    for item in group.items:
        if isinstance(item, TokenGroup):
            kept.append(withdraw_tokens(item, steps))
        elif item.step not in steps:
            kept.append(item)
    return group._replace(items=ordered(kept))
