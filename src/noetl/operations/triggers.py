"""Triggers and schedules: automatic starts of playbooks, by new items or by time (TMR-01). Creating and deleting
triggers; listing, pausing and resuming both; making up for missed times. For a server and for a local store.

Schedules are in the playbooks. A server polls triggers (`control/triggers`) and starts what is due
(`control/schedules`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import msgspec

from noetl.base.clock import Clock, moment, rfc3339
from noetl.base.durations import seconds
from noetl.base.errors import InvalidError, NotFoundError, RefusedError
from noetl.base.ids import uuid7
from noetl.control.schedules import ScheduleStore, as_written, execution_id_of, times
from noetl.control.trigger_turns import TriggerStore
from noetl.events.triggers import Backfill, DeadLetter, Schedule, SourceTrigger, TriggerProgress
from noetl.net.kinds import Kinds, TriggerKind
from noetl.net.secret_reads import credential_name
from noetl.operations.administration_shapes import (
    Backfilled,
    BackfillView,
    DeadLetterView,
    NewTrigger,
    ScheduledRun,
    ScheduleList,
    ScheduleView,
    TriggerView,
)
from noetl.operations.api_shapes import view_of
from noetl.operations.catalog import nearest_path
from noetl.operations.cron_words import cron_words
from noetl.store.contract import ExecutionRow, Store

MOST_RUNNING = 1_000
SHORTEST_S, LONGEST_S = 0.1, 86_400.0
_NAME = re.compile(r"[\w.-]{1,100}")


class TriggerOperations:
    """`kinds` returns the table of tool kinds. It is called only when a trigger is created, since loading is slow.
    `refusal` gives the reason why the polling server cannot run a kind; None if that is unknown: on a local store."""

    def __init__(
        self, store: Store, clock: Clock, kinds: Callable[[], Kinds], refusal: Callable[[str], str | None] | None = None
    ) -> None:
        self._store, self._clock, self._kinds, self._refusal = store, clock, kinds, refusal
        self._triggers = TriggerStore(store.key_values)

    async def create(self, new: NewTrigger, *, by: str) -> TriggerView:
        """Create a trigger. RefusedError says what is wrong with it."""
        _check_name(new.name)
        await self._check_playbook(new)
        inputs = _checked_inputs(new, _trigger_kind(self._kinds(), new.kind))
        if self._refusal is not None and (why := self._refusal(new.kind)) is not None:
            raise RefusedError(f"this server could not poll the trigger: {why}")
        now = self._clock.now()
        trigger = SourceTrigger(
            trigger_id=uuid7(now),
            name=new.name,
            kind=new.kind,
            inputs=inputs,
            path=new.path,
            version=new.version,
            interval_s=_interval(new.interval),
            max_running=_max_running(new.max_running),
            skip_existing=new.skip_existing,
            created_at=now,
            created_by=by,
        )
        await self._triggers.create(trigger)
        return await self._view(trigger)

    async def all(self) -> list[TriggerView]:
        return [await self._view(trigger) for trigger in await self._triggers.triggers()]

    async def get(self, name: str) -> TriggerView:
        return await self._view(await self._triggers.get(name))

    async def pause(self, name: str) -> TriggerView:
        """Stop polling until the trigger is resumed. Items that arrive meanwhile are read then."""
        return await self._set_paused(name, True)

    async def resume(self, name: str) -> TriggerView:
        return await self._set_paused(name, False)

    async def delete(self, name: str) -> None:
        """Delete a trigger. Its executions continue."""
        await self._triggers.delete(name)

    async def dead_letters(self, name: str) -> list[DeadLetterView]:
        return [
            view_of(DeadLetterView, letter)
            for letter in await self._triggers.dead_letters(await self._triggers.get(name))
        ]

    async def retry(self, name: str, item_id: str | None = None) -> int:
        """Mark one dead letter or all for a retry; returns how many. A server retries them at its next poll."""
        trigger = await self._triggers.get(name)
        letters = await self._find_dead_letters(trigger, item_id)
        if item_id is not None and letters[0].is_cut:
            raise RefusedError(
                f'the value of "{item_id}" was too large to be stored: start the playbook with it yourself'
            )
        # All but those whose value was too large to be stored: there is nothing to start with.
        retryable = [letter for letter in letters if not letter.is_cut]
        for letter in retryable:
            await self._triggers.keep_dead_letter(trigger, msgspec.structs.replace(letter, retry=True))
        return len(retryable)

    async def discard(self, name: str, item_id: str | None = None) -> int:
        """Delete one dead letter or all; returns how many."""
        trigger = await self._triggers.get(name)
        letters = await self._find_dead_letters(trigger, item_id)
        for letter in letters:
            await self._triggers.drop_dead_letter(trigger, letter.item_id)
        return len(letters)

    async def _find_dead_letters(self, trigger: SourceTrigger, item_id: str | None) -> list[DeadLetter]:
        letters = await self._triggers.dead_letters(trigger)
        matching = [letter for letter in letters if item_id in (None, letter.item_id)]
        if item_id is not None and not matching:
            raise NotFoundError(f'the trigger "{trigger.name}" has no dead letter "{item_id}"')
        return matching

    async def _set_paused(self, name: str, paused: bool) -> TriggerView:
        now = self._clock.now()
        changed = await self._triggers.change(
            name, lambda trigger: msgspec.structs.replace(trigger, paused=paused), at=now
        )
        return await self._view(changed)

    async def _check_playbook(self, new: NewTrigger) -> None:
        if await self._store.catalog.find(new.path, new.version) is None:
            version = f' of version "{new.version}"' if new.version else ""
            guess = await nearest_path(self._store.catalog, new.path)
            # People make triggers in the web UI too, where a command is no help.
            advice = f'did you mean "{guess}"?' if guess and guess != new.path else "register it first"
            raise RefusedError(f'there is no playbook "{new.path}"{version} here: {advice}')

    async def _view(self, trigger: SourceTrigger) -> TriggerView:
        progress, _ = await self._triggers.progress(trigger)
        # Only counted where there ever was one: most triggers have none, and a list of triggers costs one query less
        # for each.
        waiting = len(await self._triggers.dead_letters(trigger)) if progress.dead else 0
        return _trigger_view(trigger, progress, waiting)


def _trigger_view(trigger: SourceTrigger, progress: TriggerProgress, dead_letters: int) -> TriggerView:
    return TriggerView(
        name=trigger.name,
        kind=trigger.kind,
        inputs=trigger.inputs,
        path=trigger.path,
        version=trigger.version,
        interval_s=trigger.interval_s,
        max_running=trigger.max_running,
        skip_existing=trigger.skip_existing,
        paused=trigger.paused,
        started=progress.started,
        running=len(progress.running),
        dead_letters=dead_letters,
        cursor=progress.cursor,
        error=progress.error,
        error_at=rfc3339(progress.error_at) if progress.error_at is not None else None,
        created_at=rfc3339(trigger.created_at),
        created_by=trigger.created_by,
    )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise RefusedError("a trigger's name is 1 to 100 letters, digits and . _ -")


def _trigger_kind(kinds: Kinds, name: str) -> TriggerKind:
    trigger_kind = kinds[name].trigger if name in kinds else None
    if trigger_kind is None:
        known = ", ".join(sorted(kind.name for kind in kinds.values() if kind.trigger is not None))
        raise RefusedError(f'"{name}" cannot be a trigger: choose one of {known}')
    return trigger_kind


def _checked_inputs(new: NewTrigger, kind: TriggerKind) -> dict[str, Any]:
    known = {field.name: field for field in kind.inputs}
    for name in new.inputs:
        if name not in known:
            raise RefusedError(f'a trigger of {new.kind} has no input "{name}": it has {", ".join(known)}')
    for field in kind.inputs:
        if field.required and new.inputs.get(field.name) in (None, ""):
            raise RefusedError(f'a trigger of {new.kind} needs the input "{field.name}": {field.doc}')
    _check_credential(new.inputs)
    return dict(new.inputs)


def _check_credential(inputs: Mapping[str, Any]) -> None:
    """RefusedError for an `auth` that is not the name of a credential: every viewer sees the inputs of a trigger, so no
    password may be among them."""
    auth = inputs.get("auth")
    if auth is not None and (not isinstance(auth, str) or credential_name(auth) is None):
        raise RefusedError('"auth" of a trigger is the name of a stored credential: noetl credential set NAME')


def _interval(interval: str | float) -> float:
    try:
        interval_s = seconds(interval)
    except ValueError as problem:
        raise RefusedError(f"interval: {problem}") from None
    if not SHORTEST_S <= interval_s <= LONGEST_S:
        raise RefusedError(f"interval: {interval_s:g} s is not between {SHORTEST_S:g} s and a day")
    return interval_s


def _max_running(count: int) -> int:
    if not 1 <= count <= MOST_RUNNING:
        raise RefusedError(f"max_running: {count} is not a number from 1 to {MOST_RUNNING:,}")
    return count


# Times of one backfill. Each of them is looked up in the store before anything starts.
MOST_TIMES = 10_000


class ScheduleOperations:
    """The schedules of one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._schedules = ScheduleStore(store.key_values)

    async def list(self) -> ScheduleList:
        return ScheduleList(
            schedules=[await self._view(entry, 1) for entry in await self._schedules.schedules()],
            backfills=[
                view_of(BackfillView, entry, running=len(entry.running)) for entry in await self._schedules.backfills()
            ],
        )

    async def get(self, path: str, count: int) -> ScheduleView:
        """The schedule of a path with its next `count` times. NotFoundError for a path without a schedule."""
        return await self._view(await self._schedules.get(path), count)

    async def pause(self, path: str) -> ScheduleView:
        return await self._view(await self._schedules.pause(path, at=self._clock.now()), 5)

    async def resume(self, path: str) -> ScheduleView:
        return await self._view(await self._schedules.resume(path, at=self._clock.now()), 5)

    async def backfill(self, path: str, since: str, until: str | None, *, limit: int, dry_run: bool) -> Backfilled:
        """Request executions for the times from `since` to `until`, both included; times that have run are skipped.
        The process that runs schedules starts them. Times are RFC 3339 texts; InvalidError for an impossible span."""
        schedule, now = await self._schedules.get(path), self._clock.now()
        first, last = moment(since, "since"), now if until is None else moment(until, "until")
        if limit < 1:
            raise InvalidError("limit: at least one at a time")
        if last < first:
            raise InvalidError("until: it is before since")
        # `times` yields times after a moment; one second earlier includes the first time of the span.
        # The span ends now at the latest: the schedule itself runs future times, and they would run twice.
        backfill = _new_backfill(schedule, uuid7(now), first - 1.0, min(last, now), limit)
        moments = list(
            islice(times(backfill.cron, backfill.timezone, after=backfill.kept, until=backfill.until), MOST_TIMES + 1)
        )
        if len(moments) > MOST_TIMES:
            raise InvalidError(f"that is more than {MOST_TIMES:,} times: name a shorter span")
        new_moments = [
            moment_s for moment_s in moments if await self._store.execution(execution_id_of(path, moment_s)) is None
        ]
        is_requested = bool(new_moments) and not dry_run
        if is_requested:
            await self._schedules.ask_for(backfill, at=now)
        return Backfilled(
            backfill_id=backfill.backfill_id if is_requested else None,
            path=path,
            times=[as_written(moment_s, schedule.timezone) for moment_s in new_moments],
            known=len(moments) - len(new_moments),
        )

    async def _view(self, schedule: Schedule, count: int) -> ScheduleView:
        after = max(self._clock.now(), schedule.kept)
        last = await self._store.execution(schedule.running) if schedule.running is not None else None
        return ScheduleView(
            path=schedule.path,
            version=schedule.version,
            cron=schedule.cron,
            words=cron_words(schedule.cron),
            timezone=schedule.timezone,
            missed=schedule.missed.value,
            overlap=schedule.overlap.value,
            jitter_s=schedule.jitter_s,
            paused=schedule.paused,
            running=last.execution_id if last is not None and last.finished_at is None else None,
            last=_scheduled_run(schedule, last) if last is not None else None,
            missed_times=schedule.missed_times,
            last_missed=_time_text(schedule, schedule.last_missed),
            queued=[rfc3339(at) for at in schedule.queued],
            skipped=schedule.skipped,
            next=[] if schedule.paused else coming_times(schedule.cron, schedule.timezone, count, after=after),
        )


def _scheduled_run(schedule: Schedule, row: ExecutionRow) -> ScheduledRun:
    return ScheduledRun(
        execution_id=row.execution_id,
        time=_time_text(schedule, schedule.running_for),
        started_at=rfc3339(row.created_at),
        status=row.status,
    )


def _time_text(schedule: Schedule, moment_s: float | None) -> str | None:
    return as_written(moment_s, schedule.timezone) if moment_s is not None else None


def coming_times(cron: str, timezone: str, count: int, *, after: float | None = None) -> list[str]:
    """The next `count` times of a cron expression, whether or not a schedule is paused."""
    coming = times(cron, timezone, after=time.time() if after is None else after)
    return [as_written(at, timezone) for at in islice(coming, count)]


def _new_backfill(schedule: Schedule, backfill_id: str, kept: float, until: float, limit: int) -> Backfill:
    return Backfill(
        backfill_id=backfill_id,
        path=schedule.path,
        net_hash=schedule.net_hash,
        cron=schedule.cron,
        timezone=schedule.timezone,
        kept=kept,
        until=until,
        limit=limit,
    )
