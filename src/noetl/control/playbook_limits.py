"""Concurrency of a playbook: how many of its executions may run at once (`executor.spec.concurrency`, beyond.md §1).

The key-value table says which executions run and which wait: one entry per playbook and key, changed by compare and
set. So whichever servers start executions, there are never more than allowed. An execution that finds no room is
accepted all the same. It begins paused and is resumed when another one ends; a sweep finds ends that were missed.
Nested executions do not count. A limit set by an operator (beyond.md §5) is in the same table and overrides that of the
playbook, on every server and embedded run of the store, until it is reset.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, InvalidError, NoetlError, Outage, TemplateError, log_failure
from noetl.control.commit.group_commit import GroupCommit
from noetl.engine.commands import CancelExecution, ResumeExecution, Start
from noetl.engine.limits import limit_value
from noetl.events.outcomes import Error
from noetl.net.net import Concurrency
from noetl.store.contract import Commit, Store
from noetl.store.installation import KeyValue, KeyValues, each_key_value
from noetl.templates.render import render
from noetl.templates.scope import Scope
from noetl.templates.values import deep_merged

KIND = "limit"
KNOWN_S = 1.0  # how long limits of operators are cached: a new one takes effect within this time
POLL_S = 1.0
BEGINS_WITHIN_S = 60.0  # an execution that was admitted and has not begun by then never will
# Tries of compare and set on one entry. Many servers may start the same playbook at once; in each round one succeeds.
_TRIES = 50

_log = logging.getLogger(__name__)


class PlaybookLimit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: str
    limit: int
    actor: str | None = None
    reason: str | None = None


class PlaybookLimits:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        # All limits are cached, since most playbooks have none, and that must be known without a query, too.
        self._known: dict[str, int] = {}
        self._known_at: float | None = None

    async def all(self) -> list[PlaybookLimit]:
        """All limits, by path."""
        entries = each_key_value(self._key_values, KIND)
        return [msgspec.json.decode(entry.body, type=PlaybookLimit) async for entry in entries]

    async def get(self, path: str) -> PlaybookLimit | None:
        thing = await self._key_values.get(KIND, path)
        return msgspec.json.decode(thing.body, type=PlaybookLimit) if thing is not None else None

    async def cached_limit(self, path: str) -> int | None:
        """The cached limit of a playbook, used by every start."""
        now = self._clock.now()
        if self._known_at is None or not 0 <= now - self._known_at < KNOWN_S:
            self._known = {one.path: one.limit for one in await self.all()}
            self._known_at = now
        return self._known.get(path)

    async def put(self, wanted: PlaybookLimit) -> bool:
        """Set a limit for all servers and runs of the store; running executions are not stopped. False if it is set
        already."""
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
        """Remove a limit, so that the playbook's own applies again. False when there was none."""
        self._known_at = None
        return await self._key_values.delete(KIND, path)


# Groups: the executions of a playbook that share a limit, by its key (beyond.md §1). The group of a start follows from
# its playbook and payload. `PlaybookConcurrency` decides which are admitted.
GROUP_KIND = "concurrency"
HELD = "too many executions of this playbook run already"


class LimitGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The executions of a playbook under one key, the oldest first. Stored as JSON on the key-value table."""

    # The limit in the playbook as of the last start, 0 without one. A limit of an operator overrides it.
    limit: int
    path: str = ""
    # What `concurrency.key` rendered to: each value has a group of its own. None: the playbook has no key.
    key: Any = None
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    # Admitted after waiting, and perhaps not resumed yet. They are among `running` too.
    released: tuple[str, ...] = ()


def place_of(limited: Concurrency | None, start: Start, now: float) -> tuple[str, LimitGroup]:
    """The name of a start's group, and the group without members. A playbook without a limit has one group."""
    path = start.net.path
    if limited is None:
        return path, LimitGroup(limit=0, path=path)
    workload = deep_merged(start.net.workload, start.payload)
    scope = Scope({"workload": workload, "execution_id": start.execution_id, "ctx": {}, "args": {}})
    key = render(limited.key, scope, now=now) if limited.key is not None else None
    # As JSON, so that the number 1 and the text "1" are two keys. A path has no space, so names of two playbooks are
    # never equal.
    name = path if key is None else f"{path} {msgspec.json.encode(key).decode()}"
    return name, LimitGroup(
        limit=limit_value("concurrency.limit", render(limited.limit, scope, now=now)), path=path, key=key
    )


def held_back(start: Start) -> Start:
    return msgspec.structs.replace(start, paused=True, held=HELD)


def dropped(start: Start, limit: int) -> Start:
    message = f'{limit} of "{start.net.path}" run already, which is its limit'
    return msgspec.structs.replace(start, refused=Error(kind="execution.budget", message=message))


class LimitedExecutions:
    """The executions that began or wait here under a limit. A listener of commits."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # by execution, the name of its group
        self._ended: dict[str, None] = {}  # groups with an execution that has ended or begun to wait
        self._news = asyncio.Event()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Executions with their groups."""
        return iter(list(self._names.items()))

    def add(self, execution_id: str, name: str) -> None:
        self._names[execution_id] = name

    def stored(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            row = commit.execution
            name = self._names.get(row.execution_id)
            if name is not None and (row.finished_at is not None or row.status == "paused"):
                if row.finished_at is not None:
                    del self._names[row.execution_id]
                self._ended[name] = None
                self._news.set()

    async def wait(self) -> bool:
        """Return once an execution of a group has ended, or begins to wait."""
        return await self._news.wait()

    def take_left(self) -> list[str]:
        """The groups of `_ended` since the last call."""
        self._news.clear()
        ended, self._ended = self._ended, {}
        return list(ended)


class PlaybookConcurrency:
    """Admits executions under the limit of their playbook. `reaches` says which of them this process may resume."""

    def __init__(
        self,
        commit: GroupCommit,
        limited: LimitedExecutions,
        store: Store,
        clock: Clock,
        *,
        reaches: Callable[[str], bool] | None = None,
    ) -> None:
        self._commit, self._limited, self._store, self._clock = commit, limited, store, clock
        self._reaches = reaches or (lambda _: True)
        self.limits = PlaybookLimits(store.key_values, clock)
        self._outage = Outage(_log, "waiting executions were not looked for", "waiting executions are looked for again")

    async def admitted(self, start: Start) -> Start:
        """The start as it may begin now: unchanged, held, or refused."""
        limited = start.net.executor.concurrency
        if start.refused is not None or start.parent_execution_id is not None:
            return start
        if limited is None and await self.limits.cached_limit(start.net.path) is None:
            return start
        try:
            name, fresh = place_of(limited, start, self._clock.now())
        except TemplateError as problem:
            return msgspec.structs.replace(start, refused=Error(kind=problem.kind, message=problem.message))
        # Before it begins: `stored` must know it when its end is committed.
        self._limited.add(start.execution_id, name)
        for _ in range(_TRIES):
            thing, group = await self._group(name, fresh)
            held = start.execution_id in group.waiting
            # A repeated request, or a commit that was lost after the group was written.
            if held or start.execution_id in group.running:
                return held_back(start) if held else start
            room = await self._room(group)
            decided = await self._group_with_start(
                start, group, room, limited.on_limit if limited is not None else "queue"
            )
            if decided is None:
                return dropped(start, int(room))
            if await self._store_group(name, thing, decided):
                return held_back(start) if start.execution_id in decided.waiting else start
        raise BackendError(f'"{start.net.path}" is being started too many times at once: try again')

    async def _group_with_start(self, start: Start, group: LimitGroup, room: float, on_limit: str) -> LimitGroup | None:
        """The group with this start in it; None when it is dropped, since there is no room."""
        me = start.execution_id
        # First come, first served: a new execution does not overtake waiting ones.
        if len(group.running) < room and not group.waiting:
            return msgspec.structs.replace(group, running=(*group.running, me))
        match on_limit:
            case "drop":
                return None
            case "cancel_oldest":
                kept = list(group.running)
                while len(kept) >= room:
                    reason = "a newer execution of its playbook began"
                    await self._commit.submit([(kept[0], CancelExecution(at=self._clock.now(), reason=reason))])
                    del kept[0]
                return msgspec.structs.replace(group, running=(*kept, me))
            case _:
                return msgspec.structs.replace(group, waiting=(*group.waiting, me))

    async def serve_own(self) -> None:
        """Admit waiting executions of this process, until cancelled."""
        while True:
            await self._limited.wait()
            self._limited.take_left()
            while names := await self._groups_with_waiting():
                for name in names:
                    await self._advance_safely(name)
                await self._wait_for_freed_slot()  # others may end in another process
                self._limited.take_left()

    async def serve_all(self) -> None:
        """Admit waiting executions of the store, until cancelled."""
        while True:
            if not await self._wait_for_freed_slot():
                await self._sweep_safely()
            for name in self._limited.take_left():
                await self._advance_safely(name)

    async def _wait_for_freed_slot(self) -> bool:
        """Wait until an execution leaves a group, at most for `POLL_S`; returns whether one did."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                return await self._limited.wait()
        return False

    async def _sweep_safely(self) -> None:
        try:
            await self.sweep()
            self._outage.worked()
        except NoetlError as problem:  # an unreachable store, for example: try again
            self._outage.failed(problem)

    async def sweep(self) -> None:
        """Admit executions in every group that has waiting ones."""
        async for thing in each_key_value(self._store.key_values, GROUP_KIND):
            group = msgspec.json.decode(thing.body, type=LimitGroup)
            if group.waiting or group.released:
                await self._advance_safely(thing.name)

    async def _advance_safely(self, name: str) -> None:
        try:
            await self.advance(name)
        except NoetlError as problem:  # the next sweep tries again
            log_failure(_log, problem, "no waiting execution of %s was admitted", name)

    async def advance(self, name: str) -> None:
        """Admit as many as there is room for, then resume them."""
        for _ in range(_TRIES):
            thing, group = await self._group(name, None)
            if thing is None:
                return
            free = max(0, await self._room(group) - len(group.running))
            waiting = [one for one in group.waiting if self._reaches(one)]
            let_in = waiting[: int(min(free, len(waiting)))]
            moved = msgspec.structs.replace(
                group,
                running=(*group.running, *let_in),
                waiting=tuple(one for one in group.waiting if one not in let_in),
                # Stored before they are resumed: after a crash in between, another server finds them here and resumes
                # them.
                released=(*group.released, *let_in),
            )
            if await self._store_group(name, thing, moved):
                await self._submit_admission(name, [one for one in moved.released if self._reaches(one)])
                return

    async def look_at(self, path: str) -> None:
        """The limit of a playbook was changed: admit the executions that fit now."""
        async for thing in each_key_value(self._store.key_values, GROUP_KIND, prefix=path):
            # The prefix `a/b` also matches `a/b2`.
            if msgspec.json.decode(thing.body, type=LimitGroup).path == path:
                await self._advance_safely(thing.name)

    async def _room(self, group: LimitGroup) -> float:
        """How many of a group may run: the limit of an operator, else that of the playbook."""
        wanted = await self.limits.get(group.path)
        return wanted.limit if wanted is not None else group.limit or math.inf

    async def _submit_admission(self, name: str, let_in: Sequence[str]) -> None:
        """Resume the admitted executions. After a crash in between this is repeated, which changes nothing."""
        for execution_id in let_in:
            command = ResumeExecution(at=self._clock.now(), reason="there is room for it now")
            await self._commit.submit([(execution_id, command)])
        for _ in range(_TRIES if let_in else 0):
            thing, group = await self._group(name, None)
            rest = tuple(one for one in group.released if one not in let_in)
            if thing is None or await self._store_group(name, thing, msgspec.structs.replace(group, released=rest)):
                return

    async def _group(self, name: str, fresh: LimitGroup | None) -> tuple[KeyValue | None, LimitGroup]:
        """A group without its ended executions. A start passes a `fresh` group, whose limit replaces the stored one."""
        thing = await self._store.key_values.get(GROUP_KIND, name)
        group = msgspec.json.decode(thing.body, type=LimitGroup) if thing is not None else fresh or LimitGroup(limit=1)
        own = fresh or group
        # An execution enters the group before its first commit. For a while its missing row means "not yet", not
        # "gone".
        is_young = thing is not None and self._clock.now() - thing.updated_at < BEGINS_WITHIN_S
        over = {one for one in (*group.running, *group.waiting) if await self._is_over(one, is_young)}
        return thing, LimitGroup(
            limit=own.limit,
            path=own.path,
            key=own.key,
            running=tuple(one for one in group.running if one not in over),
            waiting=tuple(one for one in group.waiting if one not in over),
            released=tuple(one for one in group.released if one not in over),
        )

    async def _is_over(self, execution_id: str, is_young: bool) -> bool:
        row = await self._store.execution(execution_id)
        return not is_young if row is None else row.finished_at is not None

    async def _store_group(self, name: str, thing: KeyValue | None, group: LimitGroup) -> bool:
        body, over = msgspec.json.encode(group), thing.version if thing is not None else 0
        if thing is not None and not group.running and not group.waiting:
            # Keys may come from the payload, one group each: empty groups must not accumulate.
            return await self._store.key_values.delete(GROUP_KIND, name, version=over)
        if thing is not None and thing.body == body:
            return True
        return await self._store.key_values.put(GROUP_KIND, name, body, over=over, at=self._clock.now()) is not None

    async def _groups_with_waiting(self) -> list[str]:
        """The groups with a waiting execution that began here."""
        return list(dict.fromkeys([name for one, name in self._limited if await self._waits(one, name)]))

    async def _waits(self, execution_id: str, name: str) -> bool:
        """Whether an execution that began here still waits."""
        thing = await self._store.key_values.get(GROUP_KIND, name)
        if thing is None:
            return False
        group = msgspec.json.decode(thing.body, type=LimitGroup)
        return execution_id in group.waiting or execution_id in group.released
