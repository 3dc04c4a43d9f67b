"""Limits of playbooks that an operator has set: how many executions of each may run at once (beyond.md §5).

They are in the key-value table, so that every server and every embedded run on the store keeps them, and stand for what
the playbook says until they are reset. Who runs and who waits under them is decided in `playbook_concurrency`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, InvalidError
from noetl.engine.commands import Start
from noetl.engine.limits import limit_value
from noetl.engine.pipeline.patches import overlaid
from noetl.events.outcomes import Error
from noetl.net.net import Concurrency
from noetl.store.installation import KeyValues
from noetl.templates.render import render
from noetl.templates.scope import Scope

KIND = "limit"
KNOWN_S = 1.0  # a start of a playbook that has no limit of its own sees one after at most that long
_TRIES = 10


class PlaybookLimit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: str
    limit: int
    actor: str | None = None
    reason: str | None = None


class PlaybookLimits:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        # All of them, since most starts ask for a playbook that has none, and that too must be known without a query.
        self._known: dict[str, int] = {}
        self._known_at: float | None = None

    async def all(self) -> list[PlaybookLimit]:
        """By path."""
        return [msgspec.json.decode(thing.body, type=PlaybookLimit) for thing in await self._key_values.list(KIND)]

    async def get(self, path: str) -> PlaybookLimit | None:
        thing = await self._key_values.get(KIND, path)
        return msgspec.json.decode(thing.body, type=PlaybookLimit) if thing is not None else None

    async def cached_limit(self, path: str) -> int | None:
        """The limit of a playbook as it was a moment ago: for every start, most of which have none."""
        now = self._clock.now()
        if self._known_at is None or not 0 <= now - self._known_at < KNOWN_S:
            self._known = {one.path: one.limit for one in await self.all()}
            self._known_at = now
        return self._known.get(path)

    async def put(self, wanted: PlaybookLimit) -> bool:
        """From now on, for everybody; what runs is not stopped. False when it was so already."""
        if wanted.limit < 1:
            raise InvalidError(f"limit: found {wanted.limit}, allowed a whole number from 1 on")
        for _ in range(_TRIES):
            thing = await self._key_values.get(KIND, wanted.path)
            if thing is not None and msgspec.json.decode(thing.body, type=PlaybookLimit).limit == wanted.limit:
                return False
            version, body = thing.version if thing is not None else 0, msgspec.json.encode(wanted)
            if await self._key_values.put(KIND, wanted.path, body, over=version, at=self._clock.now()) is not None:
                self._known_at = None
                return True
        raise BackendError(f'the limit of "{wanted.path}" is being changed by others: try again')

    async def remove(self, path: str) -> bool:
        """As the playbook says again. False when it was so already."""
        self._known_at = None
        return await self._key_values.delete(KIND, path)


# Groups: the executions of a playbook that share a limit, by its key (beyond.md §1). Which group a start belongs to is
# told from its playbook and payload. Who is let in is the gate's business.
GROUP_KIND = "concurrency"
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
