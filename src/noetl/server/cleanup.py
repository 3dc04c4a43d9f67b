"""What a server removes by itself, a little every hour: old keys, sessions and workers, and executions
that have been over for long enough (reliability.md §3.6). Several servers may do it at once; what one has removed is
gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from noetl.base.errors import StoreOutageError
from noetl.control.background.retention import Retention
from noetl.server.idempotency import IdempotencyKeys
from noetl.server.logs import log
from noetl.server.services import Services
from noetl.store.notices import NoticeState

EVERY_S = 3_600.0
_FIRST_S = 30.0  # a server that has just started has better things to do
_DAY_S = 86_400.0
_NOTICES_KEPT_S = 30 * _DAY_S  # that were sent


def retention_of(services: Services) -> Retention:
    """Where the author's own file is served, only what playbooks themselves say removes anything (design.md §8)."""
    settings = services.settings
    days = None if settings.local else settings.retention_days
    default_s = None if days is None else days * _DAY_S
    return Retention(services.store, services.results, services.clock, default_s=default_s)


async def housekeeping(services: Services) -> None:
    await asyncio.sleep(_FIRST_S)
    while True:
        await clean(services)
        await asyncio.sleep(EVERY_S)


async def clean(services: Services) -> None:
    """One round; what breaks does not keep the rest from being done (reliability.md §2.7)."""
    chores: Sequence[Callable[[], Awaitable[Any]]] = (
        IdempotencyKeys(services.store.key_values, services.clock).sweep,
        services.access.sessions.sweep,
        services.roster.sweep,
        services.access.audit.write_folded,
        services.listeners.usage.sweep,
        lambda: _retire(services),
        lambda: _forget_callers(services),
        lambda: _forget_notices(services),
    )
    for chore in chores:
        try:
            await chore()
        except Exception as problem:
            if not isinstance(problem, StoreOutageError):  # its connections have told it
                log.warning("housekeeping", problem=str(problem))


async def _forget_callers(services: Services) -> None:
    if services.listeners.tracing is not None:
        await services.listeners.tracing.sweep(services.clock.now())


async def _forget_notices(services: Services) -> None:
    """Dead letters stay as long as their execution does."""
    before = services.clock.now() - _NOTICES_KEPT_S
    await services.store.notices.sweep(before=before, states=(NoticeState.SENT, NoticeState.FOLDED))


async def _retire(services: Services) -> None:
    removed = await retention_of(services).run()
    services.listeners.meters.retired.inc(removed.total)
    if removed.total or removed.results:
        log.info("retention", executions=removed.total, results=removed.results)
