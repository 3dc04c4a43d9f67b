"""Delays before a retry: backoff, cap, jitter, and the forms an author may write a delay in (POL-07, POL-08)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.base.durations import seconds
from noetl.net.task import Backoff, Retry
from noetl.templates.authored import Authored

Render = Callable[[Authored], Any]


def delay_before_next(retry: Retry, attempt: int, *, render: Render, now: float, spread: float) -> float:
    """Seconds to wait after run number `attempt`. `spread`, from 0 to 1, places the delay within its jitter."""
    written = render(retry.delay) if retry.delay is not None else None
    delay = length(written, now) if written is not None else (0.0 if retry.backoff is Backoff.NONE else 1.0)
    delay *= _growth(retry.backoff, attempt)
    if retry.max_delay is not None and (cap := render(retry.max_delay)) is not None:
        delay = min(delay, length(cap, now))
    jitter = render(retry.jitter) if retry.jitter is not None else None
    # Jitter only shortens: a delay that the author wrote, or a server asked for, is never exceeded.
    return max(0.0, delay - delay * share(jitter) * spread)


def _growth(backoff: Backoff, attempt: int) -> float:
    match backoff:
        case Backoff.NONE:
            return 1.0
        case Backoff.LINEAR:
            return float(attempt)
        case Backoff.EXPONENTIAL:
            # A float overflows at 2**1024; by then `max_delay` or the number of attempts has decided.
            return 2.0 ** min(attempt - 1, 1000)


def share(jitter: Any) -> float:
    """The part of the delay that jitter may take away: `true` all of it, a number that share of it."""
    if jitter is True:
        return 1.0
    if isinstance(jitter, int | float) and not isinstance(jitter, bool):
        return min(max(float(jitter), 0.0), 1.0)
    return 0.0


def length(written: Any, now: float) -> float:
    """Seconds of a delay as written: a number, a duration, or an HTTP date. ValueError for anything else."""
    try:
        return seconds(written)
    except ValueError:
        if not isinstance(written, str):
            raise
        return _until_http_date(written, now)


def _until_http_date(text: str, now: float) -> float:
    """Seconds from now to an HTTP date, as `Retry-After` may hold."""
    from email.utils import parsedate_to_datetime  # rarely needed, slow to import

    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        raise ValueError(f'"{text}" is neither a duration nor an HTTP date') from None
    return max(0.0, moment.timestamp() - now)
