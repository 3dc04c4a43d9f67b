"""The known word that a misspelt one was probably meant to be.

Comparing two words costs the product of their lengths, and a text may have thousands of wrong words beside thousands of
names that are alike. So the work is bounded, for each word and for each text: past that, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Letters of one word times letters of the other. A million take some 60 ms where all words are alike, mostly far less.
MOST_OF_WORD = 1_000_000
MOST_OF_TEXT = 10_000_000

_left: ContextVar[list[int] | None] = ContextVar("left", default=None)


@contextmanager
def guesses_of_one_text() -> Iterator[None]:
    """Bound all guesses in the block together."""
    token = _left.set([MOST_OF_TEXT])
    try:
        yield
    finally:
        _left.reset(token)


def may_compare(work: int) -> bool:
    """Whether so much may be compared; it counts for the text."""
    left = _left.get()
    if work > MOST_OF_WORD or (left is not None and work > left[0]):
        return False
    if left is not None:
        left[0] -= work
    return True


def nearest_word(word: str, known: Collection[str], *, cutoff: float = 0.6) -> str | None:
    """The nearest of the known words; None if none is near, or if finding it would take too long."""
    # Counted before the lengths are added up: a word may have ten thousand neighbours.
    if len(word) * len(known) > MOST_OF_WORD or not may_compare(len(word) * sum(map(len, known))):
        return None
    # Imported here because only who made a mistake needs it.
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, sorted(known), n=1, cutoff=cutoff)), None)
