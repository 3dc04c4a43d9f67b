"""One look of one trigger: what is new gets an execution each, and then the cursor moves on.

The id of an execution follows from the trigger and the item. So an item that is read again, after a crash, by another
server, or because its source repeats it, finds its execution there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

import msgspec

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError, RefusedError, ToolError, UnfitError
from noetl.base.ids import derived
from noetl.control.triggers.trigger_store import TriggerStore
from noetl.events.triggers import DeadLetter, SourceTrigger, TriggerProgress
from noetl.store.contract import ConflictError, Store
from noetl.tools.contract import TriggerBatch, TriggerItem, TriggerPoll

ENDS_POLL_S = 1.0  # while nothing more may be started
MOST_TRIES = 3  # of one item, before it is a dead letter
MOST_DEAD = 1_000  # dead letters kept of one trigger; then it stops
LONGEST_BYTES = 1 << 20  # of one item, as a webhook's body
KEPT_BYTES = 64 << 10  # of an item in a dead letter
MOST_AT_ONCE = 100
# The longest pause between tries of one item; they grow from two seconds.
_BACKOFF_S = 60.0


class TriggerStarter(Protocol):
    """Who begins executions."""

    async def check(self, trigger: SourceTrigger) -> None:
        """RefusedError when its playbook cannot be started at all."""

    async def start(self, trigger: SourceTrigger, execution_id: str, payload: dict[str, Any]) -> None:
        """Once this returns it is durable. RefusedError: this payload cannot be started; BackendError: not now."""


class TriggerReader(Protocol):
    """Who reads the sources of triggers. ToolError says why one cannot be read, without secrets."""

    async def poll(self, trigger: SourceTrigger, poll: TriggerPoll) -> TriggerBatch: ...

    async def settle(
        self, trigger: SourceTrigger, accepted: Sequence[TriggerItem], returned: Sequence[TriggerItem]
    ) -> None: ...


def execution_id_of(trigger: SourceTrigger, item_id: str) -> str:
    """The execution of an item: the same one, whoever starts it."""
    return str(UUID(hex=derived("trigger", trigger.trigger_id, item_id)))


class TriggerTurns:
    def __init__(self, store: Store, starter: TriggerStarter, reader: TriggerReader, clock: Clock) -> None:
        self._store, self._starter, self._reader, self._clock = store, starter, reader, clock
        self._triggers = TriggerStore(store.key_values)

    async def turn(self, trigger: SourceTrigger, *, wait_s: float) -> float:
        """Look once, and give the seconds until the next look."""
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
            # Nothing is started while what was there before is skipped, so the limit on running executions does not
            # matter.
            limit=MOST_AT_ONCE if is_skipping else limit,
            wait_s=0.0 if is_skipping else wait_s,
        )
        batch = await self._reader.poll(trigger, poll)
        if is_skipping:
            # The first empty batch is the end of what was there before the trigger.
            is_current = not batch.items
        else:
            is_current = True
            try:
                progress = await self._start_all(trigger, progress, batch.items)
            except _Stopped as stopped:
                # A queue gives the items out again that were not started; the cursor of other sources simply stays.
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
        """Every item has its execution, or is a dead letter. _Stopped where one is to be tried again first: those
        after it wait, so that their order is kept."""
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
            raise RefusedError(f"it has more than {LONGEST_BYTES:,} bytes, which no start takes")
        told = {"name": trigger.name, "kind": trigger.kind, "item_id": item.item_id}
        try:
            await self._starter.start(trigger, execution_id, {"item": item.value, "trigger": told})
        except ConflictError:  # another server was quicker
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
        """Start the dead letters that somebody wants tried again; one that fails again stays one."""
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
        """Those that have not ended."""
        rows = [(one, await self._store.execution(one)) for one in execution_ids]
        return tuple(one for one, row in rows if row is not None and row.finished_at is None)

    def _with_error(self, progress: TriggerProgress, error: str) -> TriggerProgress:
        if progress.error == error:
            return progress  # since when, not how often
        return msgspec.structs.replace(progress, error=error, error_at=self._clock.now())


class _Stopped(Exception):  # noqa: N818
    """Items from `index` on are tried again later."""

    def __init__(self, message: str, progress: TriggerProgress, index: int) -> None:
        super().__init__(message)
        self.progress, self.index = progress, index


def _without_error(progress: TriggerProgress) -> TriggerProgress:
    return msgspec.structs.replace(progress, error=None, error_at=None) if progress.error else progress
