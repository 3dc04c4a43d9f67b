"""Marks in lists of executions: trials (drafts, which ran an unregistered text, and tests of a single step), and stuck
executions, whose orders no worker claims.

No row says what is a trial: a draft is pinned to a net like every execution, and its text may be registered later. The
catalogue knows the nets of all registered versions. Stuck executions cost one count of the store where every pool is
served; `obstacles_of` says the same of one execution, exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from noetl.operations.api_shapes import ExecutionView
from noetl.operations.executions import rerun_links
from noetl.operations.step_tests import DRAFT, PATH_ENDING, STEP_TEST
from noetl.server.execution_control import Filter, matching_executions
from noetl.server.services import Services
from noetl.server.workers import Crews, crews_of
from noetl.store.contract import ExecutionRow, OrderRow

_LOOKED_AT = 1_000  # failed executions, or orders, that are looked at
_MOST_KNOWN = 10_000  # nets that are remembered as registered


async def execution_views(services: Services, rows: Iterable[ExecutionRow]) -> list[ExecutionView]:
    """The rows as a list shows them, with what kind of trial each is, and its reruns."""
    listed = list(rows)
    links = await rerun_links(services.store, [row.execution_id for row in listed])
    return [
        ExecutionView(
            **row.readable(),
            trial=await trial_of(services, row),
            rerun_of=links.sources.get(row.execution_id),
            rerun_by=links.newest.get(row.execution_id),
        )
        for row in listed
    ]


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """So many executions failed with this kind of error, in this step."""

    error: str
    step: str | None
    executions: int


class FailureGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The largest group first. `executions` were counted; `more`: older ones match too. Of `unknown` the reason is not
    stored, since an earlier version ended them."""

    groups: list[FailureGroup] = []
    executions: int = 0
    unknown: int = 0
    more: bool = False


async def failure_groups(services: Services, wanted: Filter) -> FailureGroups:
    """Why executions failed: the newest that match, by step and kind of error."""
    counts: Counter[tuple[str, str | None]] = Counter()
    total = unknown = 0
    async for row in matching_executions(services, wanted, about=_LOOKED_AT + 1):
        if total == _LOOKED_AT:
            break
        total += 1
        summary = row.summary
        if summary is None or summary.error is None:
            unknown += 1
        else:
            counts[summary.error, summary.step] += 1
    groups = [FailureGroup(error=error, step=step, executions=n) for (error, step), n in counts.most_common()]
    return FailureGroups(groups=groups, executions=total, unknown=unknown, more=total == _LOOKED_AT)


async def trial_of(services: Services, row: ExecutionRow) -> str | None:
    """draft | step-test; None for a run of a registered playbook."""
    known = services.caches.registered_nets
    if (row.path, row.net_hash) in known:
        return None
    if row.path.endswith(PATH_ENDING):
        return STEP_TEST
    versions = await services.store.catalog.versions(row.path)
    if len(known) > _MOST_KNOWN:
        known.clear()
    # Only what is registered is remembered: a draft may be registered at any time.
    known.update((row.path, version.net_hash) for version in versions)
    return None if (row.path, row.net_hash) in known else DRAFT


class StuckExecution(msgspec.Struct, frozen=True, kw_only=True):
    """`obstacles` say why no worker takes `orders` of its orders."""

    execution_id: str
    orders: int
    obstacles: list[str]


class StuckExecutions(msgspec.Struct, frozen=True, kw_only=True):
    """`orders` is how many orders no worker takes, of all executions; `more`: not all of them were looked at."""

    executions: list[StuckExecution] = []
    orders: int = 0
    more: bool = False


async def stuck_executions(services: Services, execution_id: str | None = None) -> StuckExecutions:
    """Executions with an order in a pool that no worker serves, or with needs that none of its workers meets; with
    `execution_id` that one alone. The needs of an order that was never offered are unknown here."""
    now = services.clock.now()
    if execution_id is not None:
        own = [row for row in await services.store.orders(execution_id) if row.is_claimable(now)]
        return _stuck(services, await crews_of(services), own) if own else StuckExecutions()
    waiting = await services.store.unclaimed(now=now)
    if not waiting:
        return StuckExecutions()
    crews, ready = await crews_of(services), services.control.decisions.ready
    found = {name: crews.of(name) for name in waiting}
    needy = {pool for pool, needs in ready.needed if pool in found and found[pool].obstacle(needs)}
    pools = sorted(needy | {name for name, crew in found.items() if crew.obstacle(())})
    rows = await services.store.claimable(now=now, limit=_LOOKED_AT, pools=pools) if pools else []
    return _stuck(services, crews, rows)


def _stuck(services: Services, crews: Crews, rows: list[OrderRow]) -> StuckExecutions:
    ready = services.control.decisions.ready
    obstacles = ((row, crews.of(row.pool).obstacle(ready.needs_of(row.order_id) or ())) for row in rows)
    reasons = [(row, why) for row, why in obstacles if why is not None]
    return StuckExecutions(executions=_by_execution(reasons), orders=len(reasons), more=len(rows) == _LOOKED_AT)


def _by_execution(reasons: list[tuple[OrderRow, str]]) -> list[StuckExecution]:
    counted: dict[str, int] = {}
    obstacles: dict[str, list[str]] = {}
    for row, why in reasons:
        counted[row.execution_id] = counted.get(row.execution_id, 0) + 1
        known = obstacles.setdefault(row.execution_id, [])
        if why not in known:
            known.append(why)
    return [
        StuckExecution(execution_id=execution_id, orders=orders, obstacles=obstacles[execution_id])
        for execution_id, orders in counted.items()
    ]
