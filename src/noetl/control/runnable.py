"""Runnable: whether a compiled playbook can be run by the tools at hand, told before anything of it begins."""

from __future__ import annotations

from collections.abc import Collection

from noetl.base.errors import RefusedError
from noetl.engine.unsupported_features import not_runnable
from noetl.net.net import Net
from noetl.net.tasks import tasks_of
from noetl.tools.registry import Registry


def check_runnable(net: Net, tools: Registry, elsewhere: Collection[str] = ()) -> None:
    """RefusedError says what cannot be run here, and the way out where there is one. The kinds `elsewhere` are run by
    workers on other machines, whose operators have allowed them there."""
    if off := _turned_off(net, tools, elsewhere):
        raise RefusedError(off)
    if missing := not_runnable(net, lambda kind: kind in elsewhere or tools.runs(kind)):
        raise RefusedError(f"this playbook uses {', '.join(missing)}, which this version cannot run yet")


def _turned_off(net: Net, tools: Registry, elsewhere: Collection[str]) -> str | None:
    """Why a kind of this playbook cannot be run here, where its operator can do something about it."""
    kinds = dict.fromkeys(task.kind for step in net.transitions for task in tasks_of(step))
    return next((why for kind in kinds if kind not in elsewhere and (why := tools.refusal(kind))), None)
