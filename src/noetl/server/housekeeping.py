"""What a server does beside its requests: before it listens, make the first master key; later, delete what is too old,
and start executions for triggers.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, RefusedError, StoreOutageError
from noetl.control.background.retention import Retention
from noetl.control.triggers.triggers import SourceReader, Triggers
from noetl.events.triggers import SourceTrigger
from noetl.operations.catalog import registered_version
from noetl.operations.credentials import key_is_elsewhere, record_key_id, used_key_id
from noetl.secrets.master_keys import VARIABLE, has_master_keys, key_file, load_master_keys
from noetl.server.idempotency import IdempotencyKeys
from noetl.server.logs import log
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services, tools_of
from noetl.server.start_requests import begin, net_of
from noetl.store.contract import Store
from noetl.store.notices import NoticeState
from noetl.worker.identity import own_worker_id

EVERY_S = 3_600.0
_FIRST_S = 30.0  # a server that has just started has better things to do
_DAY_S = 86_400.0
_NOTICES_KEPT_S = 30 * _DAY_S  # that were sent


def retention_of(services: Services) -> Retention:
    """Where the author's own file is served, only what playbooks themselves say removes anything (design.md §8)."""
    settings = services.settings
    days = None if settings.local else settings.retention_days
    default_s = None if days is None else days * _DAY_S
    return Retention(services.store, services.results, services.clock, default_s=default_s, is_patient=True)


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
        # Broad: one chore that fails must not keep the others from being done, for ever.
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


_LATER = (429, 503)  # statuses of a server that has enough to do


class ServerStarter:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def check(self, trigger: SourceTrigger) -> None:
        services = self._services
        try:
            row = await registered_version(services.store.catalog, trigger.path, trigger.version)
            await net_of(services, row)
        except ProblemDetails as problem:
            raise RefusedError(problem.detail) from None

    async def start(self, trigger: SourceTrigger, execution_id: str, payload: dict[str, Any]) -> None:
        services = self._services
        try:
            row = await registered_version(services.store.catalog, trigger.path, trigger.version)
            async with services.listeners.usage.starting(execution_id, f"trigger {trigger.name}"):
                await begin(services, row, execution_id, payload)
        except ProblemDetails as problem:
            if problem.status in _LATER:
                raise BackendError(problem.detail) from None
            raise RefusedError(problem.detail) from None


async def serve_triggers(services: Services) -> None:
    """Poll the triggers of the store for as long as the server runs. Their tools are apart from those of its worker,
    which ends them in its own time."""
    tools = tools_of(services.settings)
    reader = SourceReader(tools, services.secret_release.keychain)
    try:
        await Triggers(
            services.store, ServerStarter(services), reader, services.clock, server_id=own_worker_id()
        ).serve()
    finally:
        await reader.close()


# What a server does once, before it listens: raise its limit of open files, and make the first master key.
#
# The store records the id of that key. So a second server on the same store, on a machine without the key, makes none
# of its own: nobody could read what the two would encrypt under different keys.

WANTED = 65_536
_FOR_OURSELVES = 200  # files, pipes and connections of the server's own


def raise_limit() -> int:
    """Raise the limit of this process, and give what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return WANTED if soft == resource.RLIM_INFINITY else soft


def connections_within(open_files: int, wanted: int) -> int:
    """How many connections there is room for."""
    return max(16, min(wanted, open_files - _FOR_OURSELVES))


async def make_first_key(store: Store, clock: Clock, environment: Mapping[str, str]) -> Path | None:
    """The file of the key that was made; None where there is one already, or none may be made, which is logged."""
    if has_master_keys(environment):
        await record_key_id(store.key_values, clock, load_master_keys(environment).newest_id)
        return None
    if (missing := await used_key_id(store)) is not None:
        log.warning(key_is_elsewhere(missing, environment))
        return None
    try:
        keys = load_master_keys(environment, create=True)
    except OSError as problem:
        log.warning(f"no master key could be made ({problem}), so no credential can be stored: set {VARIABLE}")
        return None
    kept = await record_key_id(store.key_values, clock, keys.newest_id)
    if kept != keys.newest_id:  # a server on another machine was faster: its key is the one
        key_file(environment).unlink()
        log.warning(key_is_elsewhere(kept, environment))
        return None
    return keys.file
