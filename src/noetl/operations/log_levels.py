"""Levels of log lines, found in their text: those of Python's logging, as it and most other programs write them.

A line without a level that belongs to the one before it (it is indented, or a traceback) has the level of that one.
"""

from __future__ import annotations

import re
from typing import Literal

Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error", "critical")
NONE = "-"  # stands for a line without a level
_NAMES: dict[str, Level] = {
    "DEBUG": "debug",
    "TRACE": "debug",
    "INFO": "info",
    "NOTICE": "info",
    "WARN": "warning",
    "WARNING": "warning",
    "ERROR": "error",
    "SEVERE": "error",
    "CRITICAL": "critical",
    "FATAL": "critical",
}
_WORD = "|".join(_NAMES)
# Colours of a terminal, which programs write around the level.
_STYLE = re.compile(r"\x1b\[[0-9;:]*m")
# `WARNING:shop:late`, `2026-01-02 03:04:05,678 - shop - ERROR - late`, `[ERROR] late`; `level=error`, `"level": "info"`
_CAPITALS = re.compile(rf"(?<![\w.-])(?:{_WORD})(?![\w.=-])")
_FIELD = re.compile(rf"""(?<!\w)["']?(?:level|levelname|severity)["']?\s*[=:]\s*["']?(?:{_WORD})\b""", re.IGNORECASE)
_ANY = re.compile(_WORD, re.IGNORECASE)
_HEAD = 120  # characters: a level stands before what is said
_BELONGS = re.compile(r"\s+\S|Traceback \(most recent call last\)|\w+(\.\w+)*(Error|Exception|Warning)\b")


def level_of(line: str) -> Level | None:
    """The level that a line itself names."""
    head = _STYLE.sub("", line[: 2 * _HEAD])[:_HEAD]
    found = _CAPITALS.search(head) or _FIELD.search(head)
    return _NAMES[re.split(r"\W+", found.group().strip("\"' "))[-1].upper()] if found is not None else None


class LineLevels:
    """The level of each line, as lines come."""

    def __init__(self) -> None:
        self._last: Level | None = None

    def next(self, line: str) -> Level | None:
        level = level_of(line)
        if level is None and self._last is not None and _BELONGS.match(line):
            return self._last
        self._last = level
        return level


def levels_of(text: str | None) -> str:
    """A letter for each line of a text: d, i, w, e, c, or - where there is none. Empty where no line has one."""
    if not text or _ANY.search(text) is None:
        return ""
    levels = LineLevels()
    letters = "".join((levels.next(line) or NONE)[0] for line in text.split("\n"))
    return letters if letters.strip(NONE) else ""


def is_at_least(letter: str, least: Level) -> bool:
    """Whether a line of this letter has the level, or a graver one."""
    letters = [level[0] for level in LEVELS]
    return letter in letters[LEVELS.index(least) :]
