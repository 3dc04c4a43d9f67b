"""Markings of the search: tokens in nested fork groups, equal whenever they are the same up to order.

A group is a value like its tokens, sorted into its parent; so symmetric states are one state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.language.proving.outcomes import NOBODY


class MarkedToken(NamedTuple):
    """`waits`: held at a join, not running."""

    step: int
    waits: bool = False


class TokenGroup(NamedTuple):
    """A fork group still alive. `fired`: joins that already ran for it; `ended`: where a token of it ended."""

    items: tuple[MarkedToken | TokenGroup, ...]
    fired: tuple[int, ...] = ()
    ended: int = NOBODY


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
    """How many living groups, at any depth, have had `join` fired and still have tokens out (rest: block)."""
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
