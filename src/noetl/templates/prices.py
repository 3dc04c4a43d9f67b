"""Prices: what an operation costs in steps of the budget, from the sizes of what it works on (reliability.md §2.1).

A step stands for at most one microsecond of a processor, so a whole budget is spent in a quarter of a second. A price
is the worst case for values of these sizes, never a guess at what their content is. It is paid before the work is done.
`make bench` measures what a step costs in every operation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_WORD_BITS = 64


def reading(text: str) -> int:
    """Walking through `text` once, character by character."""
    return 1 + (len(text) >> 6)


def comparing(left: str, right: str) -> int:
    """Telling whether two texts are equal: their memory is compared, if they are of one length."""
    return len(left) >> 8 if len(left) == len(right) else 0


def searching(text: str, part: str) -> int:
    """Looking for `part` in `text` from the left, once or for every place where it stands.

    CPython tries every place in short texts and with short parts, which costs both lengths multiplied. Otherwise it
    uses an algorithm that costs their sum (Objects/stringlib/fastsearch.h).
    """
    places = len(text) - len(part) + 1
    if places <= 0:
        return 1
    tries_every_place = len(text) < 2_500 or len(part) < 6 or (len(part) < 100 and len(text) < 30_000)
    return 1 + (places * len(part) >> 9 if tries_every_place else len(text) >> 5) + (len(text) >> 6)


def key(value: Any) -> int:
    """Finding an entry of a mapping: a long key is hashed and compared."""
    return len(value) >> 8 if isinstance(value, str) else 0


def keys(mapping: Iterable[Any]) -> int:
    """Finding every key of a mapping in another one."""
    return sum(len(one) if isinstance(one, str) else 1 for one in mapping) >> 8


def digits(number: int) -> int:
    """Writing or reading a whole number: the work grows with the square of its length."""
    words = number.bit_length() // _WORD_BITS
    return words + (words * words >> 6)


def multiplying(left: Any, right: Any) -> int:
    """Multiplying or dividing two numbers, which only long ones make expensive."""
    if type(left) is not int or type(right) is not int:
        return 0
    return (left.bit_length() // _WORD_BITS) * (1 + right.bit_length() // _WORD_BITS) >> 4


def sorting(number: int, weight: int) -> int:
    """Putting `number` keys in order that have `weight` parts together."""
    return weight * number.bit_length() >> 2
