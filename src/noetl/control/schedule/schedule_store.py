"""The schedules of this installation, by the path of their playbook (TMR-01).

It says what is kept, for whoever looks or changes it; `schedules` starts the executions. Of two who change
the same schedule at once the second reads it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import NotFoundError, RefusedError
from noetl.events.triggers import Backfill, Missed, Overlap, Schedule
from noetl.net.net import Net, Trigger
from noetl.store.installation import CatalogRow, KeyValue, KeyValues

SCHEDULE, BACKFILL = "schedule", "backfill"  # kinds on the key-value table
_PAGE = 500
_TRIES = 10


class ScheduleStore:
    def __init__(self, key_values: KeyValues) -> None:
        self._key_values = key_values

    async def enter(self, net: Net, row: CatalogRow, *, at: float) -> Schedule | None:
        """The schedule of a version that was just registered; the one before it is replaced, or goes if there is none
        any more. What it has kept stays kept, unless its times are others now."""
        for _ in range(_TRIES):
            thing = await self._key_values.get(SCHEDULE, net.path)
            before = schedule_of(thing) if thing is not None else None
            if net.trigger is None:
                if thing is None or await self._key_values.delete(SCHEDULE, net.path, version=thing.version):
                    return None
                continue
            entered = _entered(net.trigger, row, before, at)
            over = thing.version if thing is not None else 0
            if await self._key_values.put(SCHEDULE, net.path, _body(entered), over=over, at=at) is not None:
                return entered
        raise RefusedError(f'the schedule of "{net.path}" is being changed by others: try again')

    async def get(self, path: str) -> Schedule:
        return schedule_of(await self._stored_schedule(path))

    async def schedules(self) -> list[Schedule]:
        return [schedule_of(thing) for thing in await self.key_values_of(SCHEDULE)]

    async def pause(self, path: str, *, at: float) -> Schedule:
        return await self._change(path, at, lambda schedule: msgspec.structs.replace(schedule, paused=True))

    async def resume(self, path: str, *, at: float) -> Schedule:
        """Go on from now: what passed meanwhile was meant to pass, and can be backfilled."""

        def resumed(schedule: Schedule) -> Schedule:
            if not schedule.paused:
                return schedule
            return msgspec.structs.replace(schedule, paused=False, kept=max(at, schedule.kept))

        return await self._change(path, at, resumed)

    async def backfills(self, path: str | None = None) -> list[Backfill]:
        found = [backfill_of(thing) for thing in await self.key_values_of(BACKFILL)]
        return [one for one in found if path in (None, one.path)]

    async def ask_for(self, backfill: Backfill, *, at: float) -> None:
        """Leave it to `Schedules`, durably."""
        await self._key_values.put(BACKFILL, backfill.backfill_id, _body(backfill), over=0, at=at)

    async def key_values_of(self, kind: str) -> list[KeyValue]:
        found: list[KeyValue] = []
        while True:
            page = await self._key_values.list(kind, limit=_PAGE, beyond=found[-1].name if found else None)
            found += page
            if len(page) < _PAGE:
                return found

    async def replace(self, thing: KeyValue, new: Schedule | Backfill, *, at: float) -> bool:
        """False when somebody else has changed it since it was read."""
        return await self._key_values.put(thing.kind, thing.name, _body(new), over=thing.version, at=at) is not None

    async def remove(self, thing: KeyValue) -> None:
        await self._key_values.delete(thing.kind, thing.name, version=thing.version)

    async def _stored_schedule(self, path: str) -> KeyValue:
        thing = await self._key_values.get(SCHEDULE, path)
        if thing is None:
            raise NotFoundError(f'"{path}" has no schedule: register a playbook of this path that has a trigger')
        return thing

    async def _change(self, path: str, at: float, change: Callable[[Schedule], Schedule]) -> Schedule:
        for _ in range(_TRIES):
            thing = await self._stored_schedule(path)
            before = schedule_of(thing)
            after = change(before)
            if after == before or await self.replace(thing, after, at=at):
                return after
        raise RefusedError(f'the schedule of "{path}" is being changed by others: try again')


def schedule_of(thing: KeyValue) -> Schedule:
    return msgspec.json.decode(thing.body, type=Schedule)


def backfill_of(thing: KeyValue) -> Backfill:
    return msgspec.json.decode(thing.body, type=Backfill)


def _body(what: Schedule | Backfill) -> bytes:
    return msgspec.json.encode(what)


def _entered(trigger: Trigger, row: CatalogRow, before: Schedule | None, at: float) -> Schedule:
    options = trigger.options
    fields: dict[str, Any] = {
        "path": row.path,
        "version": row.version,
        "net_hash": row.net_hash,
        "cron": trigger.cron,
        "timezone": trigger.timezone,
        "missed": Missed(options.get("missed", Missed.LAST)),
        "overlap": Overlap(options.get("overlap", Overlap.ALLOW)),
        "jitter_s": seconds(options.get("jitter", 0)),
    }
    if before is None:
        return Schedule(**fields, paused=bool(options.get("paused")), kept=at)
    # With other times nothing of the past was missed: they begin now. With the same ones, what was missed while the new
    # version was registered is still due.
    same = (before.cron, before.timezone) == (trigger.cron, trigger.timezone)
    return msgspec.structs.replace(before, **fields, kept=before.kept if same else max(at, before.kept))
