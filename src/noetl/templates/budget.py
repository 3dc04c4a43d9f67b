"""One evaluation of one template, with the budgets that end a runaway as an ordinary error (reliability.md §2.1).

Three budgets: steps (time), bytes of what the template makes (memory) and the length of any one text. They are counted
before the work is done, so no single operation can overrun them. Values made by the template are remembered, so that
only these are checked when a value leaves; data of the scope passes unchecked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates.values import Missing, clipped

# A step is well under a microsecond, so a runaway ends in a fraction of a second. The server evaluates guards on its
# event loop, where everybody waits for it.
MAX_STEPS = 250_000
MAX_MADE_BYTES = 16 * 1024 * 1024
MAX_TEXT = 1024 * 1024
# Multiplying large integers costs more than linear time, and `2 ** 10**9` would be one operation.
MAX_INTEGER_BITS = 4_096
# Below the recursion limit of Python, since encoding and comparing walk values recursively.
MAX_VALUE_DEPTH = 100

_SLOT_BYTES = 40  # a pointer and a small object; dictionaries cost more and are counted as two slots per entry


class Evaluation:
    """The state of one evaluation. `lookup` gives a name's value or raises KeyError. `record`, if given, receives
    each value between text, with its expression, and returns the text for it."""

    __slots__ = ("_made", "_made_bytes", "_max_steps", "_steps", "locals", "lookup", "now", "out", "record", "strict")

    def __init__(
        self,
        lookup: Callable[[str], Any],
        *,
        now: float | None = None,
        strict: bool = False,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self.lookup = lookup
        self.now = now
        self.strict = strict
        # names that the template itself binds: `for`, `set`, `with`
        self.locals: dict[str, Any] = {}
        # the output of the statements of a template with blocks so far
        self.out: list[str] = []
        self.record: Callable[[Evaluation, Any, Any], str] | None = None
        self._max_steps = self._steps = max_steps
        self._made_bytes = MAX_MADE_BYTES
        # By identity, with the object itself: as long as it is held, its id cannot be given to another one.
        self._made: dict[int, Any] = {}

    @property
    def spent(self) -> int:
        """The steps of work so far, those included that were refused."""
        return self._max_steps - self._steps

    def spend(self, steps: int) -> None:
        """Account for `steps` units of work, each well under a microsecond."""
        self._steps -= steps
        if self._steps < 0:
            raise TemplateError(
                f"the template does too much work (over {self._max_steps:,} steps): use a python task for it"
            )

    def read(self, text: str) -> str:
        """Account for walking through `text` once."""
        self.spend(reading(text))
        return text

    def fits(self, length: int) -> None:
        """Refuse a text of `length` characters before it is made."""
        if length > MAX_TEXT:
            raise TemplateError(f"the template makes a text of more than {MAX_TEXT:,} characters")

    def reserve(self, slots: int) -> None:
        """Account for a list of `slots` elements that is about to be made."""
        self._charge(64 + slots * _SLOT_BYTES)
        self.spend(2 + (slots >> 2))

    def hold(self, text: str) -> None:
        """Account for the memory of a copy of `text`, in one piece or in many."""
        # CPython keeps one byte for each ASCII character, and up to four for each of any other text.
        self._charge(64 + (len(text) if text.isascii() else len(text) * 4))

    def text(self, made: str) -> str:
        """Account for a text the template made; returns it."""
        self.fits(len(made))
        self.hold(made)
        self.spend(reading(made))
        return made

    def own(self, made: Any) -> Any:
        """Remember a container the template made (reserved before); returns it."""
        self._made[id(made)] = made
        return made

    def owns(self, value: Any) -> bool:
        return id(value) in self._made

    def missing(self, label: str) -> Missing:
        """The result of an undefined read: Missing, or an error in strict mode (TPL-04)."""
        if self.strict:
            raise TemplateError(f'"{clipped(label)}" is undefined, and this condition is strict (spec.eval: strict)')
        return Missing(label)

    def _charge(self, size_bytes: int) -> None:
        self._made_bytes -= size_bytes
        if self._made_bytes < 0:
            raise TemplateError(
                f"the template makes more than {MAX_MADE_BYTES >> 20} MiB of data: use a python task for it"
            )


# Prices: the cost of an operation in steps of the budget, by the sizes of its operands (reliability.md §2.1).
#
# A step means at most one microsecond of a processor, so a whole budget is spent in a quarter of a second. A price is
# the worst case for values of these sizes, never a guess at what their content is. It is paid before the work is done.
# `make bench` measures the cost of a step in every operation.

_WORD_BITS = 64


def reading(text: str) -> int:
    """Walking through `text` once, character by character."""
    return 1 + (len(text) >> 6)


def comparing(left: str, right: str) -> int:
    """Testing whether two texts are equal: their memory is compared if they have the same length."""
    return len(left) >> 8 if len(left) == len(right) else 0


def searching(text: str, part: str) -> int:
    """Looking for `part` in `text` from the left, once or for every occurrence.

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
