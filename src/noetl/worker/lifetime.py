"""Lifetime: a step run that takes too long is stopped where it stands (WRK-07).

Only waiting and running tools are cut short, never a report on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from noetl.engine.waits.times import expired
from noetl.events.outcomes import Error


class Expired(Exception):  # noqa: N818  it is no error of ours: the step run is over
    """The step run ends here, with this error."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.error = error


@asynccontextmanager
async def alive(expiries: Mapping[str, float], now: float) -> AsyncIterator[None]:
    """Run the body until the first of `expiries` (kind -> moment); past it, `Expired`. The earliest wins (C-30)."""
    if not expiries:
        yield
        return
    kind, moment = min(expiries.items(), key=lambda item: item[1])
    error = expired(kind)
    try:
        async with asyncio.timeout(max(0.0, moment - now)) as clock:
            yield
    except TimeoutError:
        if clock.expired():
            raise Expired(error) from None
        raise
