"""Settings of limits, read and changed on a server, or in a store, where whoever runs executions hears of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from noetl.cli.connection import server_answer, server_meant
from noetl.cli.queries import QueryRefused, find_execution, read
from noetl.cli.terminal import visible

if TYPE_CHECKING:
    from noetl.store.contract import Store


def execution_meant(given: str, db: str | None) -> str | None:
    """The execution that is meant, None when there is none: then it is a playbook."""
    try:
        return read(db, lambda records: find_execution(records, given)).execution_id
    except QueryRefused as problem:
        if problem.message.startswith("several"):
            raise
        return None


def playbook_rows(path: str | None, db: str | None) -> list[dict[str, Any]]:
    """The limits of all playbooks, or of one."""
    import msgspec

    if (there := server_meant(db)) is None:
        return _playbooks_here(path, db)
    told: list[dict[str, Any]] = msgspec.to_builtins(server_answer(there, lambda client: client.playbook_limits(path)))
    return told


def step_rows(execution_id: str, db: str | None) -> list[dict[str, Any]]:
    """The limits of an execution's steps."""
    import msgspec

    if (there := server_meant(db)) is None:
        return _steps_here(execution_id, db)
    told: list[dict[str, Any]] = msgspec.to_builtins(
        server_answer(there, lambda client: client.step_limits(execution_id))
    )
    return told


def _playbooks_here(path: str | None, db: str | None) -> list[dict[str, Any]]:
    import msgspec

    from noetl.base.clock import SystemClock
    from noetl.cli.requests import using
    from noetl.control.limits.playbook_limits import PlaybookLimits
    from noetl.control.views.limit_views import playbook_limits

    async def playbook_rows(store: Store) -> list[dict[str, Any]]:
        views = await playbook_limits(store.key_values, PlaybookLimits(store.key_values, SystemClock()), path)
        told: list[dict[str, Any]] = msgspec.to_builtins(views)
        return told

    return using(db, playbook_rows)


def _steps_here(execution_id: str, db: str | None) -> list[dict[str, Any]]:
    import msgspec

    from noetl.cli.queries import pages, results_of
    from noetl.cli.requests import using
    from noetl.control.views.limit_views import step_limits
    from noetl.engine.evolve import replayed
    from noetl.events.envelope import with_stored_values
    from noetl.net.encoding import from_json

    results = results_of(db)

    async def step_rows(store: Store) -> list[dict[str, Any]]:
        row = await find_execution(store, execution_id)
        events = [
            with_stored_values(event, results.load) async for page in pages(store, execution_id) for event in page
        ]
        execution = replayed(execution_id, row.trace_id, events)
        told: list[dict[str, Any]] = msgspec.to_builtins(
            step_limits(from_json(await store.net(row.net_hash)), execution)
        )
        return told

    return using(db, step_rows)


def limit_playbook(path: str, limit: int | None, reason: str | None, db: str | None) -> bool:
    """None: as the playbook says. Whether anything changed."""
    if (there := server_meant(db)) is not None:
        if limit is None:
            return server_answer(there, lambda client: client.reset_playbook_limit(path))
        return server_answer(there, lambda client: client.limit_playbook(path, limit, reason=reason))
    return _limit_playbook_here(path, limit, reason, db)


def _limit_playbook_here(path: str, limit: int | None, reason: str | None, db: str | None) -> bool:
    from getpass import getuser

    from noetl.base.clock import SystemClock
    from noetl.cli.requests import using
    from noetl.control.limits.playbook_limits import PlaybookLimit, PlaybookLimits

    async def change(store: Store) -> bool:
        limits = PlaybookLimits(store.key_values, SystemClock())
        if await store.catalog.find(path) is None and not await store.executions(limit=1, path=path):
            raise QueryRefused(f'no playbook "{visible(path)}" is registered or has run here; a step needs --step')
        if limit is None:
            return await limits.remove(path)
        return await limits.put(PlaybookLimit(path=path, limit=limit, actor=getuser(), reason=reason))

    return using(db, change)


def limit_step(given: str, step: str, settings: dict[str, Any], reason: str | None, db: str | None) -> tuple[str, bool]:
    """The execution, and whether anything changed."""
    if (there := server_meant(db)) is None:
        return _limit_step_here(given, step, settings, reason, db)
    execution_id = read(None, lambda records: find_execution(records, given)).execution_id
    told = settings | ({"reason": reason} if reason is not None else {})
    return execution_id, server_answer(there, lambda client: client.limit_step(execution_id, step, **told))


def _limit_step_here(
    given: str, step: str, settings: dict[str, Any], reason: str | None, db: str | None
) -> tuple[str, bool]:
    from getpass import getuser

    from noetl.cli.requests import send_command, using
    from noetl.control.outside.report_results import check
    from noetl.engine.commands import ChangeLimit
    from noetl.events.control import StepRate

    wanted = dict(settings)
    if (rate := wanted.get("rate")) is not None:
        wanted["rate"] = StepRate(limit=rate["limit"], per_s=rate["per"])

    async def change(store: Store) -> tuple[str, bool]:
        row = await find_execution(store, given)
        command = ChangeLimit(at=time.time(), step=step, actor=getuser(), reason=reason, **wanted)
        told = await send_command(store, db, row.execution_id, command)
        return row.execution_id, check(told, what=f'the limit of step "{step}"')

    return using(db, change)
