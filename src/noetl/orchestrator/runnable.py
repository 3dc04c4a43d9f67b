"""Runnable: whether a compiled playbook can be run by the tools at hand, told before anything of it begins."""

from __future__ import annotations

from noetl.engine.coverage import not_runnable
from noetl.errors import RefusedError
from noetl.net.net import Net
from noetl.net.tasks import tasks_of
from noetl.tools.registry import Registry


def check_runnable(net: Net, tools: Registry) -> None:
    """RefusedError says what cannot be run here, and the way out where there is one."""
    if off := _turned_off(net, tools):
        raise RefusedError(off)
    if missing := not_runnable(net, tools.runs):
        raise RefusedError(f"this playbook uses {', '.join(missing)}, which this version cannot run yet")


def _turned_off(net: Net, tools: Registry) -> str | None:
    """Why a kind of this playbook cannot be run here, where its operator can do something about it."""
    kinds = dict.fromkeys(task.kind for step in net.transitions for task in tasks_of(step))
    return next((why for kind in kinds if (why := tools.refusal(kind))), None)
