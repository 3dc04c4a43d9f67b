"""Limits as an operator sees them: what the playbook says, what was set instead, and how many run and wait under each.

Told from the key-value table, and from the state of an execution; where those come from is not known here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.control.limits.limit_groups import KIND, LimitGroup
from noetl.control.limits.playbook_limits import PlaybookLimits
from noetl.engine.concurrency_limits import LIMIT, RATE
from noetl.engine.execution import Execution
from noetl.engine.held_tokens import StepLimits
from noetl.net.net import Net, Transition
from noetl.store.key_values import KeyValues

_PAGE = 500


class PlaybookLimitView(msgspec.Struct, frozen=True, kw_only=True):
    """`written` is what the playbook said when it was last started, `limit` what was set instead; null: nothing. With a
    `key` each has its own line, and none while nobody runs."""

    path: str
    key: Any = None
    written: int | None = None
    limit: int | None = None
    running: int = 0
    waiting: int = 0


class RateView(msgspec.Struct, frozen=True, kw_only=True):
    """So many runs begin in any `per` seconds. As written it may be templates."""

    limit: Any
    per: Any


class StepLimitView(msgspec.Struct, frozen=True, kw_only=True):
    """`written` and `written_rate` are the playbook's, `limit` and `rate` what was set instead; null: nothing.
    `running` hold a place, `waiting` wait for one, and `paced` for their moment."""

    step: str
    key: Any = None
    written: Any = None
    limit: int | None = None
    written_rate: RateView | None = None
    rate: RateView | None = None
    running: int = 0
    waiting: int = 0
    paced: int = 0


async def playbook_limits(
    key_values: KeyValues, limits: PlaybookLimits, path: str | None = None
) -> list[PlaybookLimitView]:
    """Of all playbooks, or of one, by path and key: those with a limit that was set, or with somebody running."""
    wanted = {one.path: one.limit for one in await limits.all() if path in (None, one.path)}
    found: list[PlaybookLimitView] = []
    beyond: str | None = None
    while page := await key_values.list(KIND, prefix=path or "", limit=_PAGE, beyond=beyond):
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
        _step(step, execution, execution.limits.get(step.name) or StepLimits())
        for step in net.transitions
        if step.concurrency or step.rate or "max_concurrent" in step.quotas or step.name in execution.limits
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
