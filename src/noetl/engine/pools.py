"""Pools: whose workers may run a step. The step's own wish, else the playbook's, rendered and recorded (SRV-08)."""

from __future__ import annotations

from noetl.base.errors import TemplateError
from noetl.engine.plan import Plan
from noetl.events.waits import MAX_NAME
from noetl.net.net import Transition
from noetl.templates.render import render
from noetl.templates.scope import Scope


def pool_of(plan: Plan, step: Transition, scope: Scope, now: float) -> str | None:
    """None where nobody says: the default one."""
    written = step.pool if step.pool is not None else plan.net.executor.pool
    if written is None:
        return None
    pool = render(written, scope, now=now)
    if not isinstance(pool, str) or not pool or len(pool) > MAX_NAME or "\0" in pool:
        raise TemplateError(f"pool: expected the name of a pool, found {pool!r}")
    return pool
