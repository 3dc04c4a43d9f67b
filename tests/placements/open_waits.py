"""A store that stops virtual time: while it works, on a disk or on another process, virtual time does not move
(TMR-07). It is the store itself in every other respect."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.contracts.stores import opened
from tests.fixtures.virtual_time import working

PARTS = ("waits", "tasks", "key_values", "credentials", "catalog", "audit", "requests")


class StandingStill:
    """Calls of the store, and of its parts, are work."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._whole, name)
        if name in PARTS and not callable(found):
            return StandingStill(found)
        if not inspect.iscoroutinefunction(found):
            return found

        async def called(*args: Any, **kwargs: Any) -> Any:
            with working():
                return await found(*args, **kwargs)

        return called


@asynccontextmanager
async def opened_still(backend: str, folder: Path) -> AsyncIterator[Any]:
    """A fresh store; opening and closing it take no time either."""
    plain = opened(backend, folder)
    with working():
        store = await plain.__aenter__()
    try:
        yield StandingStill(store)
    finally:
        with working():
            await plain.__aexit__(None, None, None)
