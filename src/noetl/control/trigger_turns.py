"""Trigger turns: one poll of one trigger starts an execution for each new item, and then moves the cursor.

The id of an execution follows from the trigger and the item. So an item that is read again, after a crash, by another
server, or because its source repeats it, finds its execution there. `TriggerStore` stores triggers: their definitions,
their progress, their dead letters, and which server polls them. `triggers.py` decides which server polls when.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol
from uuid import UUID

import msgspec

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError, NotFoundError, RefusedError, ToolError, UnfitError
from noetl.base.ids import derived
from noetl.events.triggers import DeadLetter, SourceTrigger, TriggerProgress
from noetl.store.contract import ConflictError, Store
from noetl.store.installation import KeyValue, KeyValues, each_key_value
from noetl.tools.contract import TriggerBatch, TriggerItem, TriggerPoll

TRIGGER, PROGRESS, DEAD_LETTER, POLLER = "trigger", "trigger_progress", "trigger_dead_letter", "trigger_poller"
_TRIES = 10


class Poller(msgspec.Struct, frozen=True):
    """The server that polls a trigger, as a lease. Two servers that poll at once start nothing twice, but poll
    twice."""

    server_id: str
    until: float  # by the clock of the server; renewed when half of it is over


class TriggerStore:
    def __init__(self, key_values: KeyValues) -> None:
        self._key_values = key_values

    async def create(self, trigger: SourceTrigger) -> None:
        body = msgspec.json.encode(trigger)
        if await self._key_values.put(TRIGGER, trigger.name, body, over=0, at=trigger.created_at) is None:
            raise RefusedError(f'there is a trigger "{trigger.name}" already: delete it first, or choose another name')

    async def triggers(self) -> list[SourceTrigger]:
        things = each_key_value(self._key_values, TRIGGER)
        return [msgspec.json.decode(thing.body, type=SourceTrigger) async for thing in things]

    async def get(self, name: str) -> SourceTrigger:
        return msgspec.json.decode((await self._stored_progress(name)).body, type=SourceTrigger)

    async def change(self, name: str, change: Callable[[SourceTrigger], SourceTrigger], *, at: float) -> SourceTrigger:
        for _ in range(_TRIES):
            thing = await self._stored_progress(name)
            before = msgspec.json.decode(thing.body, type=SourceTrigger)
            after = change(before)
            body = msgspec.json.encode(after)
            if after == before or await self._key_values.put(TRIGGER, name, body, over=thing.version, at=at):
                return after
        raise RefusedError(f'the trigger "{name}" is being changed by others: try again')

    async def delete(self, name: str) -> None:
        """Delete a trigger with its progress and dead letters. A server that polls it stops before its next poll."""
        trigger = await self.get(name)
        # First, so that no server begins to poll it while the rest is removed.
        await self._key_values.delete(TRIGGER, name)
        async for thing in self._letters(trigger):
            await self._key_values.delete(DEAD_LETTER, thing.name)
        await self._key_values.delete(PROGRESS, trigger.trigger_id)
        await self._key_values.delete(POLLER, trigger.trigger_id)

    async def progress(self, trigger: SourceTrigger) -> tuple[TriggerProgress, int]:
        """The progress of a trigger, and the version it is stored under, 0 for none."""
        thing = await self._key_values.get(PROGRESS, trigger.trigger_id)
        if thing is None:
            return TriggerProgress(trigger_id=trigger.trigger_id), 0
        return msgspec.json.decode(thing.body, type=TriggerProgress), thing.version

    async def save_progress(self, progress: TriggerProgress, *, over: int, at: float) -> bool:
        """False when another server has moved it since it was read."""
        body = msgspec.json.encode(progress)
        return await self._key_values.put(PROGRESS, progress.trigger_id, body, over=over, at=at) is not None

    async def dead_letters(self, trigger: SourceTrigger) -> list[DeadLetter]:
        """The oldest first."""
        found = [msgspec.json.decode(thing.body, type=DeadLetter) async for thing in self._letters(trigger)]
        return sorted(found, key=lambda one: (one.at, one.item_id))

    async def keep_dead_letter(self, trigger: SourceTrigger, letter: DeadLetter) -> None:
        name = _letter_name(trigger, letter.item_id)
        for _ in range(_TRIES):
            stored = await self._key_values.get(DEAD_LETTER, name)
            over = stored.version if stored is not None else 0
            if await self._key_values.put(DEAD_LETTER, name, msgspec.json.encode(letter), over=over, at=letter.at):
                return

    async def drop_dead_letter(self, trigger: SourceTrigger, item_id: str) -> bool:
        return await self._key_values.delete(DEAD_LETTER, _letter_name(trigger, item_id))

    async def is_polled_by(self, trigger: SourceTrigger, server_id: str, *, now: float, for_s: float) -> bool:
        """Whether this server polls the trigger; it takes or renews the lease if no other server has it."""
        thing = await self._key_values.get(POLLER, trigger.trigger_id)
        held = msgspec.json.decode(thing.body, type=Poller) if thing is not None else None
        if held is not None and held.until > now:
            if held.server_id != server_id:
                return False
            if held.until > now + for_s / 2:
                return True
        body = msgspec.json.encode(Poller(server_id, now + for_s))
        over = thing.version if thing is not None else 0
        return await self._key_values.put(POLLER, trigger.trigger_id, body, over=over, at=now) is not None

    async def leave(self, trigger: SourceTrigger, server_id: str) -> None:
        """Give the lease back, so that another server may poll the trigger at once."""
        thing = await self._key_values.get(POLLER, trigger.trigger_id)
        if thing is not None and msgspec.json.decode(thing.body, type=Poller).server_id == server_id:
            await self._key_values.delete(POLLER, trigger.trigger_id, version=thing.version)

    async def _stored_progress(self, name: str) -> KeyValue:
        thing = await self._key_values.get(TRIGGER, name)
        if thing is None:
            raise NotFoundError(f'there is no trigger "{name}": noetl trigger list shows them')
        return thing

    def _letters(self, trigger: SourceTrigger) -> AsyncIterator[KeyValue]:
        return each_key_value(self._key_values, DEAD_LETTER, prefix=f"{trigger.trigger_id}/")


def _letter_name(trigger: SourceTrigger, item_id: str) -> str:
    # Hashed: the id of an item comes from its source and may be of any length.
    return f"{trigger.trigger_id}/{derived(item_id)}"


ENDS_POLL_S = 1.0  # while nothing more may be started
MOST_TRIES = 3  # of one item, before it is a dead letter
MOST_DEAD = 1_000  # dead letters kept of one trigger; then it stops
LONGEST_BYTES = 1 << 20  # of one item, as a webhook's body
KEPT_BYTES = 64 << 10  # of an item in a dead letter
MOST_AT_ONCE = 100
# The longest pause between tries of one item; they grow from two seconds.
_BACKOFF_S = 60.0


class TriggerStarter(Protocol):
    """Begins executions for triggers."""

    async def check(self, trigger: SourceTrigger) -> None:
        """Raise RefusedError if its playbook cannot be started at all."""

    async def start(self, trigger: SourceTrigger, execution_id: str, payload: dict[str, Any]) -> None:
        """Start an execution; once this returns it is stored. RefusedError: this payload cannot be started;
        BackendError: try again later."""


class TriggerReader(Protocol):
    """Reads the sources of triggers. ToolError says why a source cannot be read, without secrets."""

    async def poll(self, trigger: SourceTrigger, poll: TriggerPoll) -> TriggerBatch: ...

    async def settle(
        self, trigger: SourceTrigger, accepted: Sequence[TriggerItem], returned: Sequence[TriggerItem]
    ) -> None: ...


def execution_id_of(trigger: SourceTrigger, item_id: str) -> str:
    """The id of the execution of an item. Every server derives the same."""
    return str(UUID(hex=derived("trigger", trigger.trigger_id, item_id)))


class TriggerTurns:
    def __init__(self, store: Store, starter: TriggerStarter, reader: TriggerReader, clock: Clock) -> None:
        self._store, self._starter, self._reader, self._clock = store, starter, reader, clock
        self._triggers = TriggerStore(store.key_values)

    async def turn(self, trigger: SourceTrigger, *, wait_s: float) -> float:
        """Poll once; returns the seconds until the next poll."""
        # The version is read with it: the write at the end fails if another server has polled meanwhile, and its
        # progress stays.
        before, version = await self._triggers.progress(trigger)
        progress = msgspec.structs.replace(before, running=await self._open(before.running))
        wait_next_s = ENDS_POLL_S
        try:
            await self._starter.check(trigger)
            progress = await self._retry_letters(trigger, progress)
            free = trigger.max_running - len(progress.running)
            if free > 0:
                progress, found = await self._poll_once(trigger, progress, min(free, MOST_AT_ONCE), wait_s)
                wait_next_s = 0.0 if found else trigger.interval_s
            progress = _without_error(progress)
        except _Stopped as stopped:
            progress = self._with_error(stopped.progress, str(stopped))
            wait_next_s = min(2.0**progress.tries, _BACKOFF_S)
        except (ToolError, RefusedError, BackendError) as problem:
            progress = self._with_error(progress, str(problem))
            wait_next_s = max(trigger.interval_s, ENDS_POLL_S)
        if progress != before:
            # After the starts: a crash in between reads the items again, and finds their executions.
            await self._triggers.save_progress(progress, over=version, at=self._clock.now())
        return wait_next_s

    async def _poll_once(
        self, trigger: SourceTrigger, progress: TriggerProgress, limit: int, wait_s: float
    ) -> tuple[TriggerProgress, bool]:
        """The progress after one poll, and whether anything was found."""
        is_skipping = trigger.skip_existing and not progress.is_current
        poll = TriggerPoll(
            trigger_id=trigger.trigger_id,
            cursor=progress.cursor,
            # While older items are skipped nothing is started, so the limit on running executions does not matter.
            limit=MOST_AT_ONCE if is_skipping else limit,
            wait_s=0.0 if is_skipping else wait_s,
        )
        batch = await self._reader.poll(trigger, poll)
        if is_skipping:
            # The first empty batch is the end of the items that are older than the trigger.
            is_current = not batch.items
        else:
            is_current = True
            try:
                progress = await self._start_all(trigger, progress, batch.items)
            except _Stopped as stopped:
                # A queue delivers items that were not started again; the cursor of other sources stays.
                await self._reader.settle(trigger, batch.items[: stopped.index], batch.items[stopped.index :])
                raise
            if batch.items:
                crash_point("trigger.started", trigger.name)
        # After all of them are durable: a broker deletes what is acknowledged.
        await self._reader.settle(trigger, batch.items, ())
        return msgspec.structs.replace(progress, cursor=batch.cursor, is_current=is_current), bool(batch.items)

    async def _start_all(
        self, trigger: SourceTrigger, progress: TriggerProgress, items: Sequence[TriggerItem]
    ) -> TriggerProgress:
        """Start the execution of every item, or store a dead letter. Raises _Stopped if an item has to be tried again
        first: the items after it wait, so that their order is kept."""
        # The cursor stays before a batch that was stopped, so that its dead letters are read again.
        letters = await self._triggers.dead_letters(trigger) if progress.dead and items else []
        given_up = {letter.item_id for letter in letters}
        for index, item in enumerate(items):
            if item.item_id in given_up:
                continue
            try:
                progress = await self._start(trigger, progress, item)
            except (RefusedError, UnfitError) as problem:
                progress = await self._try_again_or_give_up(trigger, progress, item, index, str(problem))
            except BackendError as problem:
                raise _Stopped(str(problem), progress, index) from None
        return progress

    async def _start(self, trigger: SourceTrigger, progress: TriggerProgress, item: TriggerItem) -> TriggerProgress:
        """Begin the execution of an item, unless it has one."""
        execution_id = execution_id_of(trigger, item.item_id)
        # Saves building the start. The commit refuses a second one in any case, as the id is the same.
        if await self._store.execution(execution_id) is not None:
            return progress
        if item.refusal:
            raise RefusedError(item.refusal)
        if len(msgspec.json.encode(item.value)) > LONGEST_BYTES:
            raise RefusedError(f"it has more than {LONGEST_BYTES:,} bytes, which is too large for a start")
        trigger_fields = {"name": trigger.name, "kind": trigger.kind, "item_id": item.item_id}
        try:
            await self._starter.start(trigger, execution_id, {"item": item.value, "trigger": trigger_fields})
        except ConflictError:  # another server has started it
            return progress
        running = (*progress.running, execution_id)
        return msgspec.structs.replace(progress, running=running, started=progress.started + 1, failing=None, tries=0)

    async def _try_again_or_give_up(
        self, trigger: SourceTrigger, progress: TriggerProgress, item: TriggerItem, index: int, error: str
    ) -> TriggerProgress:
        tries = progress.tries + 1 if progress.failing == item.item_id else 1
        if tries < MOST_TRIES:
            progress = msgspec.structs.replace(progress, failing=item.item_id, tries=tries)
            raise _Stopped(f"item {item.item_id}: {error}", progress, index)
        if len(await self._triggers.dead_letters(trigger)) >= MOST_DEAD:
            raise _Stopped(f"{MOST_DEAD:,} dead letters are kept: retry or discard them first", progress, index)
        # The limit keeps a thousand dead letters of one trigger below 64 MB on the key-value table.
        is_cut = len(msgspec.json.encode(item.value)) > KEPT_BYTES
        letter = DeadLetter(
            item_id=item.item_id,
            value=None if is_cut else item.value,
            is_cut=is_cut,
            error=error,
            at=self._clock.now(),
        )
        await self._triggers.keep_dead_letter(trigger, letter)
        return msgspec.structs.replace(progress, dead=progress.dead + 1, failing=None, tries=0)

    async def _retry_letters(self, trigger: SourceTrigger, progress: TriggerProgress) -> TriggerProgress:
        """Start the dead letters that an operator wants retried; one that fails again stays a dead letter."""
        if not progress.dead:
            return progress
        for letter in await self._triggers.dead_letters(trigger):
            if not letter.retry or len(progress.running) >= trigger.max_running:
                continue
            try:
                item = TriggerItem(item_id=letter.item_id, value=letter.value)
                progress = await self._start(trigger, progress, item)
                await self._triggers.drop_dead_letter(trigger, letter.item_id)
            except (RefusedError, UnfitError) as problem:
                failed = msgspec.structs.replace(letter, retry=False, error=str(problem))
                await self._triggers.keep_dead_letter(trigger, failed)
        return progress

    async def _open(self, execution_ids: Sequence[str]) -> tuple[str, ...]:
        """The executions that have not ended."""
        rows = [(one, await self._store.execution(one)) for one in execution_ids]
        return tuple(one for one, row in rows if row is not None and row.finished_at is None)

    def _with_error(self, progress: TriggerProgress, error: str) -> TriggerProgress:
        if progress.error == error:
            return progress  # `error_at` is when it began, so a repeated error changes nothing
        return msgspec.structs.replace(progress, error=error, error_at=self._clock.now())


class _Stopped(Exception):  # noqa: N818
    """Items from `index` on are tried again later."""

    def __init__(self, message: str, progress: TriggerProgress, index: int) -> None:
        super().__init__(message)
        self.progress, self.index = progress, index


def _without_error(progress: TriggerProgress) -> TriggerProgress:
    return msgspec.structs.replace(progress, error=None, error_at=None) if progress.error else progress
