"""Limits: how many executions of a playbook, or runs of a step, run at once; listed, and changed while they run.

A list shows the limit of the playbook, the one that an operator set instead, and how many run and wait under each.
"""

from __future__ import annotations

import msgspec

from noetl.base.errors import NotFoundError
from noetl.control.outside.human_tasks import TakesCommands, check, request_result
from noetl.control.playbook_limits import GROUP_KIND, LimitGroup, PlaybookLimit, PlaybookLimits
from noetl.engine.commands import ChangeLimit
from noetl.engine.concurrency_limits import LIMIT, RATE
from noetl.engine.execution import Execution
from noetl.engine.held_tokens import StepLimits
from noetl.net.net import Net, Transition
from noetl.operations.api_shapes import PlaybookLimitView, RateView, StepLimitView
from noetl.store.contract import Store
from noetl.store.installation import KeyValues, each_key_value


async def limit_playbook(
    store: Store, limits: PlaybookLimits, path: str, limit: int | None, *, actor: str, reason: str | None = None
) -> bool:
    """Set a limit on every server in place of the playbook's own; None removes it. False if nothing changed.
    NotFoundError for a playbook that is not registered and has not run here."""
    # Remove before looking for the playbook: the limit of a deleted playbook can still be removed.
    if limit is None and await limits.remove(path):
        return True
    if await store.catalog.find(path) is None and not await store.executions(limit=1, path=path):
        raise NotFoundError(
            f'no playbook "{path}" is registered or has run here; to limit a step, name an execution and the step'
        )
    if limit is None:
        return False
    return await limits.put(PlaybookLimit(path=path, limit=limit, actor=actor, reason=reason))


async def limit_step(target: TakesCommands, execution_id: str, command: ChangeLimit) -> bool:
    """Change the limit of a step in this execution alone. False if nothing changed."""
    answer = await target.submit(execution_id, command)
    return check(request_result(answer), what=f'the limit of step "{command.step}"')


async def playbook_limits(
    key_values: KeyValues, limits: PlaybookLimits, path: str | None = None
) -> list[PlaybookLimitView]:
    """The limits of all playbooks, or of one, by path and key: those that an operator set, and those with running
    executions."""
    set_limits = {limit.path: limit.limit for limit in await limits.all() if path in (None, limit.path)}
    views: list[PlaybookLimitView] = []
    # The prefix `a/b` also matches `a/b2`, so the path inside the row decides.
    async for row in each_key_value(key_values, GROUP_KIND, prefix=path or ""):
        group = msgspec.json.decode(row.body, type=LimitGroup)
        if path in (None, group.path):
            views.append(_limit_view(group, set_limits.get(group.path)))
    listed = {limit.path for limit in views}
    views += [PlaybookLimitView(path=name, limit=limit) for name, limit in set_limits.items() if name not in listed]
    return sorted(views, key=lambda limit: (limit.path, msgspec.json.encode(limit.key)))


def _limit_view(group: LimitGroup, limit: int | None) -> PlaybookLimitView:
    return PlaybookLimitView(
        path=group.path,
        key=group.key,
        # 0 means that the playbook itself has no limit; the group exists because of the operator's limit.
        written=group.limit or None,
        limit=limit,
        running=len(group.running),
        waiting=len(group.waiting),
    )


def step_limits(net: Net, execution: Execution) -> list[StepLimitView]:
    """The limits of all steps with a limit or a rate, of the playbook or of an operator, in the playbook's order."""
    return [
        _step_limit_view(step, execution, execution.held.limits.get(step.name) or StepLimits())
        for step in net.transitions
        if step.concurrency or step.rate or "max_concurrent" in step.quotas or step.name in execution.held.limits
    ]


def _step_limit_view(step: Transition, execution: Execution, override: StepLimits) -> StepLimitView:
    tokens = [token for token in execution.tokens.values() if token.step == step.name]
    concurrency, rate = step.concurrency, step.rate
    written = concurrency.limit.data if concurrency is not None else step.quotas.get("max_concurrent")
    key = concurrency.key if concurrency is not None else rate.key if rate is not None else None
    return StepLimitView(
        step=step.name,
        key=key.data if key is not None else None,
        written=written,
        limit=override.limit,
        written_rate=RateView(limit=rate.limit.data, per=rate.per.data) if rate is not None else None,
        rate=RateView(limit=override.rate.limit, per=override.rate.per_s) if override.rate is not None else None,
        running=sum(bool(token.slots) for token in tokens),
        waiting=sum(token.held == LIMIT for token in tokens),
        paced=sum(token.held == RATE for token in tokens),
    )
