"""Groups: the executions of a playbook that share a limit, by its key, as they lie on the key-value table (beyond.md
§1).

Which group a start belongs to is told from its playbook and payload. Who is let in is the gate's business.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.control.nested.starts import Start
from noetl.engine.limits import limit_value
from noetl.engine.pipeline.patches import overlaid
from noetl.events.outcomes import Error
from noetl.net.net import Concurrency
from noetl.templates.render import render
from noetl.templates.scope import Scope

KIND = "concurrency"
HELD = "too many executions of this playbook run already"


class LimitGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The executions of a playbook under one key, the oldest first. Stored as JSON on the key-value table."""

    # The playbook's own as of the last start, 0 when it has none. A limit of an operator stands before it.
    limit: int
    path: str = ""
    # What `concurrency.key` rendered to: each value has a group of its own. None: the playbook has no key.
    key: Any = None
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    # Let in, and perhaps not resumed yet. They are among `running` too.
    released: tuple[str, ...] = ()


def place_of(limited: Concurrency | None, start: Start, now: float) -> tuple[str, LimitGroup]:
    """The group of a start by its name, as if nobody were in it; a playbook without a limit of its own has one."""
    path = start.net.path
    if limited is None:
        return path, LimitGroup(limit=0, path=path)
    workload = overlaid(start.net.workload, start.payload)
    scope = Scope({"workload": workload, "execution_id": start.execution_id, "ctx": {}, "args": {}})
    key = render(limited.key, scope, now=now) if limited.key is not None else None
    # As JSON, so that the number 1 and the text "1" are two keys. A path has no space in it, so names of two playbooks
    # never meet.
    name = path if key is None else f"{path} {msgspec.json.encode(key).decode()}"
    return name, LimitGroup(
        limit=limit_value("concurrency.limit", render(limited.limit, scope, now=now)), path=path, key=key
    )


def held_back(start: Start) -> Start:
    return msgspec.structs.replace(start, paused=True, held=HELD)


def dropped(start: Start, limit: int) -> Start:
    message = f'{limit} of "{start.net.path}" run already, which is its limit'
    return msgspec.structs.replace(start, refused=Error(kind="execution.budget", message=message))
