"""Missing: what a template gets when it reads something that is not there (TPL-03).

It is falsy, equals nothing that is defined, and never leaves a template: a single expression that is missing
leaves as null. It knows what was read, so that an error can name it.
"""

from __future__ import annotations

_LONGEST = 80


def clipped(word: str) -> str:
    """A word of the author's as messages show it: in one line, and not without end."""
    word = word if len(word) <= _LONGEST else word[: _LONGEST - 1] + "…"
    return word if word.isprintable() else repr(word)[1:-1]


class Missing:
    """The value of an undefined name or lookup; `label` is what the author wrote."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = clipped(label)

    def __bool__(self) -> bool:
        return False
