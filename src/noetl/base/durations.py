"""Durations as people write them: ISO 8601 (`PT2H30M`, `P2D`), short (`48h`, `1h30m`) or plain seconds (TMR-03).

Months and years have no fixed length, so they are refused rather than guessed at. Also how long a client or a worker
waits before it sends a failed request again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

FORMS = "write seconds (90), a short form (48h, 1h30m, 300s) or ISO 8601 (PT2H30M, P2D)"

LONGEST_S = 1e11  # over three thousand years: a later end has no valid date

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
# Bounded: the text comes from authors and from data, and a float must hold it.
_NUMBER = r"\d{1,15}(?:[.,]\d{1,9})?"


class _Patterns(NamedTuple):
    plain: re.Pattern[str]
    short: re.Pattern[str]
    short_part: re.Pattern[str]
    iso: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    """Compiled when a text is read: that takes 3 ms, and most runs have no duration as text."""
    return _Patterns(
        plain=re.compile(rf"{_NUMBER}\Z"),
        short=re.compile(rf"(?:{_NUMBER}(?:ms|[smhdw]))+\Z", re.IGNORECASE),
        short_part=re.compile(rf"({_NUMBER})(ms|[smhdw])", re.IGNORECASE),
        iso=re.compile(
            rf"P(?:(?P<w>{_NUMBER})W)?(?:(?P<d>{_NUMBER})D)?"
            rf"(?:T(?=\d)(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?\Z"
        ),
    )


def seconds(value: object) -> float:
    """The length of a duration in seconds. ValueError says what is wrong with anything else."""
    if isinstance(value, bool):
        raise ValueError(f"{value} is not a duration: {FORMS}")
    if isinstance(value, int | float):
        if not 0 <= value < LONGEST_S:
            raise ValueError(f"{value} is not a duration: it must be zero or more seconds, and less than {LONGEST_S:g}")
        return float(value)
    if isinstance(value, str):
        found = _from_text(value.strip())
        if found >= LONGEST_S:
            raise ValueError(f'"{value.strip()}" is not a duration: it must be less than {LONGEST_S:g} seconds')
        return found
    raise ValueError(f"a {type(value).__name__} is not a duration: {FORMS}")


def _from_text(text: str) -> float:
    patterns = _patterns()
    if patterns.plain.match(text):
        return _number(text)
    if patterns.short.match(text):
        return sum(_number(amount) * _UNITS[unit.lower()] for amount, unit in patterns.short_part.findall(text))
    iso = patterns.iso.match(text)
    if iso and any(iso.groupdict().values()):
        return sum(_number(amount) * _UNITS[unit] for unit, amount in iso.groupdict().items() if amount)
    if re.match(r"P\d.*[YM]", text) and "T" not in text.split("M")[0]:
        raise ValueError(f'"{text}" has months or years, which have no fixed length: write days')
    raise ValueError(f'"{text}" is not a duration: {FORMS}')


def _number(text: str) -> float:
    return float(text.replace(",", "."))


FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 1.0  # workers are back, and their work is done, within 2 s after a server is back


def retry_delay_s(tries: int, retry_after: str | None = None, *, spread: Callable[[], float] | None = None) -> float:
    """The delay after `tries` failed requests, at least what the server asks for (`Retry-After`). It has full jitter,
    so that many workers do not come back at the same moment."""
    from random import random  # slow to import, and most programs send nothing again

    most = min(LONGEST_DELAY_S, FIRST_DELAY_S * float(1 << min(tries, 16)))
    least = float(retry_after) if retry_after is not None and retry_after.isdigit() else 0.0
    return min(least, 60.0) + most * (spread or random)()
