"""Concurrency of a playbook: how many of its executions may run at once (`executor.spec.concurrency`, beyond.md §1).

The key-value table says which executions run and which wait: one entry per playbook and key, changed by compare and
set. So whichever servers start executions, there are never more than allowed. An execution that finds no room is
accepted all the same. It begins paused and is resumed when another one ends; a sweep finds ends that were missed. A
limit set by an operator overrides that of the playbook. Nested executions do not count.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, NoetlError, Outage, TemplateError, log_failure
from noetl.control.commit.group_commit import GroupCommit
from noetl.control.limits.playbook_limits import GROUP_KIND, LimitGroup, PlaybookLimits, dropped, held_back, place_of
from noetl.control.limits.playbook_limits import HELD as HELD
from noetl.engine.commands import CancelExecution, ResumeExecution, Start
from noetl.events.outcomes import Error
from noetl.store.contract import Commit, Store
from noetl.store.installation import KeyValue

POLL_S = 1.0
BEGINS_WITHIN_S = 60.0  # who was let in and has not begun by then never will
# Of compare and set on one entry. Many servers may start the same playbook at once, and each round one of them
# succeeds.
_TRIES = 50
_PAGE = 500

_log = logging.getLogger(__name__)


class LimitedExecutions:
    """The executions that began or wait here under a limit. Hears of every commit."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # their groups
        self._ended: dict[str, None] = {}  # groups that somebody has left
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
        """Return once somebody has left a group, or begins held."""
        return await self._news.wait()

    def take_left(self) -> list[str]:
        """The groups that somebody has left since this was asked last."""
        self._news.clear()
        ended, self._ended = self._ended, {}
        return list(ended)


class PlaybookConcurrency:
    """Lets executions in. `reaches` tells which of them may be told here that they are let in."""

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
        """The start as it may begin now: as it is, held, or refused."""
        limited = start.net.executor.concurrency
        if start.refused is not None or start.parent_execution_id is not None:
            return start
        if limited is None and await self.limits.cached_limit(start.net.path) is None:
            return start
        try:
            name, fresh = place_of(limited, start, self._clock.now())
        except TemplateError as problem:
            return msgspec.structs.replace(start, refused=Error(kind=problem.kind, message=problem.message))
        # Before it begins: `stored` must know it by then, to hear of its end.
        self._limited.add(start.execution_id, name)
        for _ in range(_TRIES):
            thing, group = await self._group(name, fresh)
            held = start.execution_id in group.waiting
            # A repeated request, or a commit that was lost after the group was written.
            if held or start.execution_id in group.running:  # it was asked for before
                return held_back(start) if held else start
            room = await self._room(group)
            decided = await self._decided(start, group, room, limited.on_limit if limited is not None else "queue")
            if decided is None:
                return dropped(start, int(room))
            if await self._put(name, thing, decided):
                return held_back(start) if start.execution_id in decided.waiting else start
        raise BackendError(f'"{start.net.path}" is being started by too many at once: try again')

    async def _decided(self, start: Start, group: LimitGroup, room: float, on_limit: str) -> LimitGroup | None:
        """The group with one more; None when there is no room and nobody waits."""
        me = start.execution_id
        # First come, first served: a new one does not overtake those that wait.
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
        """Let in those that wait here, for as long as anybody wants it."""
        while True:
            await self._limited.wait()
            self._limited.take_left()
            while names := await self._groups_with_waiting():
                for name in names:
                    await self._advance_safely(name)
                await self._wait_for_freed_slot()  # others may end in another process
                self._limited.take_left()

    async def serve_all(self) -> None:
        """Let in whoever waits in the store, for as long as anybody wants it."""
        while True:
            if not await self._wait_for_freed_slot():
                await self._sweep_safely()
            for name in self._limited.take_left():
                await self._advance_safely(name)

    async def _wait_for_freed_slot(self) -> bool:
        """Whether somebody has left a group before it was time to look anyway."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                return await self._limited.wait()
        return False

    async def _sweep_safely(self) -> None:
        try:
            await self.sweep()
            self._outage.worked()
        except NoetlError as problem:  # the store is away, say: it will be back
            self._outage.failed(problem)

    async def sweep(self) -> None:
        """Look at every group in which somebody waits."""
        beyond: str | None = None
        while True:
            page = await self._store.key_values.list(GROUP_KIND, limit=_PAGE, beyond=beyond)
            for thing in page:
                group = msgspec.json.decode(thing.body, type=LimitGroup)
                if group.waiting or group.released:
                    await self._advance_safely(thing.name)
            if len(page) < _PAGE:
                return
            beyond = page[-1].name

    async def _advance_safely(self, name: str) -> None:
        try:
            await self.advance(name)
        except NoetlError as problem:  # it is looked at again
            log_failure(_log, problem, "nobody was let in by %s", name)

    async def advance(self, name: str) -> None:
        """Let in as many as there is room for, then tell them."""
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
                # Noted before they are resumed: after a crash in between another server finds them here and resumes
                # them.
                released=(*group.released, *let_in),
            )
            if await self._put(name, thing, moved):
                await self._submit_admission(name, [one for one in moved.released if self._reaches(one)])
                return

    async def look_at(self, path: str) -> None:
        """The limit of a playbook has been changed: let in whoever may."""
        beyond: str | None = None
        while page := await self._store.key_values.list(GROUP_KIND, prefix=path, limit=_PAGE, beyond=beyond):
            for thing in page:
                if msgspec.json.decode(thing.body, type=LimitGroup).path == path:
                    await self._advance_safely(thing.name)
            beyond = page[-1].name

    async def _room(self, group: LimitGroup) -> float:
        """How many of a group may run: as an operator has set it, else as the playbook says."""
        wanted = await self.limits.get(group.path)
        return wanted.limit if wanted is not None else group.limit or math.inf

    async def _submit_admission(self, name: str, let_in: Sequence[str]) -> None:
        """A crash in between tells them again, which changes nothing."""
        for execution_id in let_in:
            command = ResumeExecution(at=self._clock.now(), reason="there is room for it now")
            await self._commit.submit([(execution_id, command)])
        for _ in range(_TRIES if let_in else 0):
            thing, group = await self._group(name, None)
            rest = tuple(one for one in group.released if one not in let_in)
            if thing is None or await self._put(name, thing, msgspec.structs.replace(group, released=rest)):
                return

    async def _group(self, name: str, fresh: LimitGroup | None) -> tuple[KeyValue | None, LimitGroup]:
        """A group without those of it that have ended. Its limit is that of whoever starts one now, who gives a `fresh`
        one."""
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

    async def _put(self, name: str, thing: KeyValue | None, group: LimitGroup) -> bool:
        body, over = msgspec.json.encode(group), thing.version if thing is not None else 0
        if thing is not None and not group.running and not group.waiting:
            # Keys may come from the payload, one group each: empty ones must not pile up.
            return await self._store.key_values.delete(GROUP_KIND, name, version=over)
        if thing is not None and thing.body == body:
            return True
        return await self._store.key_values.put(GROUP_KIND, name, body, over=over, at=self._clock.now()) is not None

    async def _groups_with_waiting(self) -> list[str]:
        """The groups in which somebody who began here waits."""
        return list(dict.fromkeys([name for one, name in self._limited if await self._waits(one, name)]))

    async def _waits(self, execution_id: str, name: str) -> bool:
        """Whether an execution that began here is held still."""
        thing = await self._store.key_values.get(GROUP_KIND, name)
        if thing is None:
            return False
        group = msgspec.json.decode(thing.body, type=LimitGroup)
        return execution_id in group.waiting or execution_id in group.released
