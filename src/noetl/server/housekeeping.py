"""Background work of a server: creating the first master key before it listens, deleting old records every hour, and
starting executions for triggers.
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
from noetl.control.triggers import SourceReader, Triggers
from noetl.events.executions import Starter
from noetl.events.triggers import SourceTrigger
from noetl.operations.catalog import registered_version
from noetl.operations.credentials import missing_key_message, record_key_id, used_key_id
from noetl.secrets.encryption import VARIABLE, has_master_keys, key_file, load_master_keys
from noetl.server.idempotency import IdempotencyKeys
from noetl.server.logs import log
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services, tools_of
from noetl.server.start_requests import StartTerms, begin, net_of
from noetl.store.contract import Store
from noetl.store.notices import NoticeState
from noetl.worker.identity import own_worker_id

EVERY_S = 3_600.0
_FIRST_S = 30.0  # a server that has just started is busy with reconnecting workers
_DAY_S = 86_400.0
_NOTICES_KEPT_S = 30 * _DAY_S  # that were sent


def retention_of(services: Services) -> Retention:
    """The retention of a server. On a local server only playbooks' own retention applies (design.md §8)."""
    settings = services.settings
    days = None if settings.local else settings.retention_days
    default_s = None if days is None else days * _DAY_S
    # Patient: on PostgreSQL, deletable rows wait until the table of their whole week can be dropped (decision 0019).
    return Retention(services.store, services.results, services.clock, default_s=default_s, is_patient=True)


async def housekeeping(services: Services) -> None:
    await asyncio.sleep(_FIRST_S)
    while True:
        await run_chores(services)
        await asyncio.sleep(EVERY_S)


async def run_chores(services: Services) -> None:
    """Run all chores once; a failing chore does not stop the others (reliability.md §2.7)."""
    chores: Sequence[Callable[[], Awaitable[Any]]] = (
        IdempotencyKeys(services.store.key_values, services.clock).sweep,
        services.access.sessions.sweep,
        services.roster.sweep,
        # Counts of refused requests are in memory and would be lost with the process.
        services.access.audit.write_folded,
        services.listeners.usage.sweep,
        lambda: _retire(services),
        lambda: _sweep_trace_callers(services),
        lambda: _sweep_notices(services),
    )
    for chore in chores:
        try:
            await chore()
        # Any error: one failing chore must not stop the others forever.
        except Exception as problem:
            # The connections of the store have logged an outage already.
            if not isinstance(problem, StoreOutageError):
                log.warning("housekeeping", problem=str(problem))


async def _sweep_trace_callers(services: Services) -> None:
    if services.listeners.tracing is not None:
        await services.listeners.tracing.sweep(services.clock.now())


async def _sweep_notices(services: Services) -> None:
    """Delete notices that were sent. Dead letters stay as long as their execution."""
    before = services.clock.now() - _NOTICES_KEPT_S
    await services.store.notices.sweep(before=before, states=(NoticeState.SENT, NoticeState.FOLDED))


async def _retire(services: Services) -> None:
    removed = await retention_of(services).run()
    services.listeners.meters.retired.inc(removed.total)
    if removed.total or removed.results:
        log.info("retention", executions=removed.total, results=removed.results)


_LATER = (429, 503)  # statuses of an overloaded server: the start is tried again later


class ServerStarter:
    """Starts executions for triggers, within the quotas of this server."""

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
                await begin(
                    services, row, execution_id, StartTerms(payload, Starter(kind="trigger", name=trigger.name))
                )
        except ProblemDetails as problem:
            # A BackendError means "not now" and does not count as a try; after three refusals an item is a dead letter.
            if problem.status in _LATER:
                raise BackendError(problem.detail) from None
            raise RefusedError(problem.detail) from None


async def serve_triggers(services: Services) -> None:
    """Poll the triggers of the store while the server runs. They have tools of their own: the worker closes its tools
    when it ends."""
    tools = tools_of(services.settings)
    reader = SourceReader(tools, services.secret_release.keychain)
    try:
        await Triggers(
            services.store, ServerStarter(services), reader, services.clock, server_id=own_worker_id()
        ).serve()
    finally:
        await reader.close()


# Before a server listens it raises its limit of open files and creates the first master key.
#
# The store records the id of that key. A second server on the same store, on a machine without the key, creates no key
# of its own: otherwise each server could not decrypt the credentials of the other.

WANTED_OPEN_FILES = 65_536
_RESERVED_FILES = 200  # for files, pipes and connections that the server itself opens


def raise_limit() -> int:
    """Raise the limit of open files of this process; returns the new limit."""
    # Many systems begin with 1,024 open files, and each connection is one.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return WANTED_OPEN_FILES if soft == resource.RLIM_INFINITY else soft


def connection_limit(open_files: int, wanted: int) -> int:
    """How many client connections the limit of open files allows."""
    return max(16, min(wanted, open_files - _RESERVED_FILES))


async def make_first_key(store: Store, clock: Clock, environment: Mapping[str, str]) -> Path | None:
    """Create the first master key; returns its file, or None if there is a key already or none can be created. The
    latter is logged."""
    if has_master_keys(environment):
        await record_key_id(store.key_values, clock, load_master_keys(environment).newest_id)
        return None
    if (missing := await used_key_id(store)) is not None:
        log.warning(missing_key_message(missing, environment))
        return None
    try:
        keys = load_master_keys(environment, create=True)
    except OSError as problem:
        log.warning(f"no master key could be created ({problem}), so no credential can be stored: set {VARIABLE}")
        return None
    recorded = await record_key_id(store.key_values, clock, keys.newest_id)
    # A server on another machine was faster: its key counts, and this one must not be used.
    if recorded != keys.newest_id:
        key_file(environment).unlink()
        log.warning(missing_key_message(recorded, environment))
        return None
    return keys.file
