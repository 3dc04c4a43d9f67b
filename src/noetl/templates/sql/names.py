"""Names: text that looks like an SQL identifier, or a list of them (design.md §8)."""

from __future__ import annotations

import re
from typing import Any

_PART = r'(?:[^\W\d]\w*|"(?:[^"\x00]|"")+")'
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*\Z")
_PARTS = re.compile(_PART)
_PLAIN = re.compile(r"[^\W\d][\w$]*\Z")
_PIECE = re.compile(r"\w+\Z")

STAR = "*"


def names_in(value: Any) -> list[str] | None:
    """The names in text such as `a, s.b` or in a list of such texts; None when it is anything else."""
    texts = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else []
    names = [text.strip() for text in texts if isinstance(text, str)]
    if not names or len(names) != len(texts) or not all(name == STAR or _NAME.match(name) for name in names):
        return None
    return names


def is_piece(text: Any) -> bool:
    """Whether text may be a part of a longer plain name: `events_{{ year }}`."""
    return isinstance(text, str | int) and not isinstance(text, bool) and bool(_PIECE.match(str(text)))


def is_plain(word: str) -> bool:
    return bool(_PLAIN.match(word))


def column(name: str) -> str:
    """A name in quotes, so that a keyword is a column like any other; plain names fold as unquoted ones do, which
    leaves letters beyond ASCII alone."""
    if name == STAR:
        return STAR
    return ".".join(part if part[0] == '"' else f'"{_folded(part)}"' for part in _PARTS.findall(name))


def _folded(word: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in word)
