"""Reverse search: `rfind` and its kin in time that grows with the length of the text alone.

CPython looks for a text from the right by trying every place, which costs both lengths multiplied; from the left it
has an algorithm that does not. So a long text is looked for from the left, with both texts reversed.
"""

from __future__ import annotations

_LONGEST_DIRECT = 16


def rfind(text: str, part: str, start: int | None = None, end: int | None = None) -> int:
    """`text.rfind(part, start, end)`."""
    if len(part) <= _LONGEST_DIRECT or len(part) > len(text):
        return text.rfind(part, start, end)
    low, high, _ = slice(start, end).indices(len(text))
    found = text[low:high][::-1].find(part[::-1])
    return found if found < 0 else high - found - len(part)


def rindex(text: str, part: str, start: int | None = None, end: int | None = None) -> int:
    """`text.rindex(part, start, end)`."""
    found = rfind(text, part, start, end)
    if found < 0:
        raise ValueError("substring not found")
    return found


def rsplit(text: str, separator: str | None = None, most: int = -1) -> list[str]:
    """`text.rsplit(separator, most)`."""
    if separator is None or len(separator) <= _LONGEST_DIRECT or len(separator) > len(text):
        return text.rsplit(separator, most)
    return [piece[::-1] for piece in reversed(text[::-1].split(separator[::-1], most))]


def rpartition(text: str, separator: str) -> tuple[str, str, str]:
    """`text.rpartition(separator)`."""
    if len(separator) <= _LONGEST_DIRECT or len(separator) > len(text):
        return text.rpartition(separator)
    found = rfind(text, separator)
    return ("", "", text) if found < 0 else (text[:found], separator, text[found + len(separator) :])
