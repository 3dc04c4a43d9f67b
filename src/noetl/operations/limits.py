"""Limits: how many executions of a playbook, or runs of a step, go on at once; shown, and changed while they run.

What is shown is what the playbook says, what was set instead, and how many run and wait under each.
"""

from __future__ import annotations

import msgspec

from noetl.base.errors import NotFoundError
from noetl.control.limits.playbook_limits import GROUP_KIND, LimitGroup, PlaybookLimit, PlaybookLimits
from noetl.control.outside.human_tasks import TakesCommands, check, request_result
from noetl.engine.commands import ChangeLimit
from noetl.engine.concurrency_limits import LIMIT, RATE
from noetl.engine.execution import Execution
from noetl.engine.held_tokens import StepLimits
from noetl.net.net import Net, Transition
from noetl.operations.api_shapes import PlaybookLimitView, RateView, StepLimitView
from noetl.store.contract import Store
from noetl.store.installation import KeyValues

_PAGE = 500


async def limit_playbook(
    store: Store, limits: PlaybookLimits, path: str, limit: int | None, *, actor: str, reason: str | None = None
) -> bool:
    """From now on, on every server, in place of what the playbook says; None: as it says again. False when it was so
    already. NotFoundError for a playbook that nobody has registered or run here."""
    if limit is None and await limits.remove(path):
        return True
    if await store.catalog.find(path) is None and not await store.executions(limit=1, path=path):
        raise NotFoundError(f'no playbook "{path}" is registered or has run here; a step needs an execution')
    if limit is None:
        return False
    return await limits.put(PlaybookLimit(path=path, limit=limit, actor=actor, reason=reason))


async def limit_step(target: TakesCommands, execution_id: str, command: ChangeLimit) -> bool:
    """From now on, in this execution alone. False when it was so already."""
    told = await target.submit(execution_id, command)
    return check(request_result(told), what=f'the limit of step "{command.step}"')


async def playbook_limits(
    key_values: KeyValues, limits: PlaybookLimits, path: str | None = None
) -> list[PlaybookLimitView]:
    """Of all playbooks, or of one, by path and key: those with a limit that was set, or with somebody running."""
    wanted = {one.path: one.limit for one in await limits.all() if path in (None, one.path)}
    found: list[PlaybookLimitView] = []
    beyond: str | None = None
    while page := await key_values.list(GROUP_KIND, prefix=path or "", limit=_PAGE, beyond=beyond):
        for thing in page:
            group = msgspec.json.decode(thing.body, type=LimitGroup)
            if path in (None, group.path):
                found.append(_limit_view(group, wanted.get(group.path)))
        beyond = page[-1].name
    shown = {one.path for one in found}
    found += [PlaybookLimitView(path=name, limit=limit) for name, limit in wanted.items() if name not in shown]
    return sorted(found, key=lambda one: (one.path, msgspec.json.encode(one.key)))


def _limit_view(group: LimitGroup, limit: int | None) -> PlaybookLimitView:
    return PlaybookLimitView(
        path=group.path,
        key=group.key,
        written=group.limit or None,
        limit=limit,
        running=len(group.running),
        waiting=len(group.waiting),
    )


def step_limits(net: Net, execution: Execution) -> list[StepLimitView]:
    """Of the steps that have a limit or a rate, written or set, in the playbook's order."""
    return [
        _step(step, execution, execution.held.limits.get(step.name) or StepLimits())
        for step in net.transitions
        if step.concurrency or step.rate or "max_concurrent" in step.quotas or step.name in execution.held.limits
    ]


def _step(step: Transition, execution: Execution, wanted: StepLimits) -> StepLimitView:
    tokens = [token for token in execution.tokens.values() if token.step == step.name]
    concurrency, rate = step.concurrency, step.rate
    written = concurrency.limit.data if concurrency is not None else step.quotas.get("max_concurrent")
    key = concurrency.key if concurrency is not None else rate.key if rate is not None else None
    return StepLimitView(
        step=step.name,
        key=key.data if key is not None else None,
        written=written,
        limit=wanted.limit,
        written_rate=RateView(limit=rate.limit.data, per=rate.per.data) if rate is not None else None,
        rate=RateView(limit=wanted.rate.limit, per=wanted.rate.per_s) if wanted.rate is not None else None,
        running=sum(bool(token.slots) for token in tokens),
        waiting=sum(token.held == LIMIT for token in tokens),
        paced=sum(token.held == RATE for token in tokens),
    )
