"""What `for` and the list filters walk over, and the `loop` a body can ask.

Every walk is counted before it starts, so a loop over a large range ends as an error and not as a long wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates.budget import Evaluation
from noetl.templates.values import Missing, described, walked


def elements(run: Evaluation, value: Any) -> Sequence[Any]:
    """What iterating over `value` gives: elements, keys of a mapping, characters; nothing for undefined."""
    value = walked(value)
    if isinstance(value, Missing):
        return ()
    if isinstance(value, list | tuple | range):
        run.spend(1 + len(value))
        return value
    if isinstance(value, dict | str):
        run.spend(len(value))
        run.reserve(len(value))
        return list(value)
    raise TemplateError(f"{described(value)} cannot be walked through: only lists, mappings and text can")


class LoopVariable:
    """`loop` inside a `for` body."""

    __slots__ = ("_index", "_items")

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items
        self._index = 0

    def move(self, index: int) -> None:
        self._index = index

    def cycle(self, *choices: Any) -> Any:
        if not choices:
            raise TemplateError("loop.cycle() needs values to go round, e.g. loop.cycle('odd', 'even')")
        return choices[self._index % len(choices)]

    def lookup(self, name: str | int) -> Any:
        index, total = self._index, len(self._items)
        match name:
            case "index":
                return index + 1
            case "index0":
                return index
            case "revindex":
                return total - index
            case "revindex0":
                return total - index - 1
            case "first":
                return index == 0
            case "last":
                return index == total - 1
            case "length":
                return total
            case "previtem" if index > 0:
                return self._items[index - 1]
            case "nextitem" if index + 1 < total:
                return self._items[index + 1]
        raise KeyError(name)

    def value(self) -> Any:
        names = ("index", "index0", "first", "last", "length")
        return {name: self.lookup(name) for name in names}
