"""What is kept of triggers, by name: their definitions, their progress, their dead letters, and who polls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from noetl.base.errors import NotFoundError, RefusedError
from noetl.base.ids import derived
from noetl.events.triggers import DeadLetter, SourceTrigger, TriggerProgress
from noetl.store.installation import KeyValue, KeyValues

TRIGGER, PROGRESS, DEAD_LETTER, POLLER = "trigger", "trigger_progress", "trigger_dead_letter", "trigger_poller"
_PAGE = 500
_TRIES = 10
Kept = TypeVar("Kept")


class Poller(msgspec.Struct, frozen=True):
    """The server that polls a trigger, as a lease. Two that poll at once start nothing twice, but ask twice."""

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
        return [msgspec.json.decode(thing.body, type=SourceTrigger) for thing in await self._all(TRIGGER)]

    async def get(self, name: str) -> SourceTrigger:
        return msgspec.json.decode((await self._stored(name)).body, type=SourceTrigger)

    async def change(self, name: str, change: Callable[[SourceTrigger], SourceTrigger], *, at: float) -> SourceTrigger:
        for _ in range(_TRIES):
            thing = await self._stored(name)
            before = msgspec.json.decode(thing.body, type=SourceTrigger)
            after = change(before)
            body = msgspec.json.encode(after)
            if after == before or await self._key_values.put(TRIGGER, name, body, over=thing.version, at=at):
                return after
        raise RefusedError(f'the trigger "{name}" is being changed by others: try again')

    async def delete(self, name: str) -> None:
        """With all that is kept of it. A server that is polling it stops at its next look."""
        trigger = await self.get(name)
        # First, so that nobody begins to poll it while the rest is removed.
        await self._key_values.delete(TRIGGER, name)
        for thing in await self._all(DEAD_LETTER, prefix=f"{trigger.trigger_id}/"):
            await self._key_values.delete(DEAD_LETTER, thing.name)
        await self._key_values.delete(PROGRESS, trigger.trigger_id)
        await self._key_values.delete(POLLER, trigger.trigger_id)

    async def progress(self, trigger: SourceTrigger) -> tuple[TriggerProgress, int]:
        """And the version it is kept under, 0 for none."""
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
        things = await self._all(DEAD_LETTER, prefix=f"{trigger.trigger_id}/")
        found = [msgspec.json.decode(thing.body, type=DeadLetter) for thing in things]
        return sorted(found, key=lambda one: (one.at, one.item_id))

    async def keep_dead_letter(self, trigger: SourceTrigger, letter: DeadLetter) -> None:
        name = _letter_name(trigger, letter.item_id)
        for _ in range(_TRIES):
            there = await self._key_values.get(DEAD_LETTER, name)
            over = there.version if there is not None else 0
            if await self._key_values.put(DEAD_LETTER, name, msgspec.json.encode(letter), over=over, at=letter.at):
                return

    async def drop_dead_letter(self, trigger: SourceTrigger, item_id: str) -> bool:
        return await self._key_values.delete(DEAD_LETTER, _letter_name(trigger, item_id))

    async def is_polled_by(self, trigger: SourceTrigger, server_id: str, *, now: float, for_s: float) -> bool:
        """Whether this server polls the trigger now: it does already, or nobody else does."""
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
        """Another server may poll it at once."""
        thing = await self._key_values.get(POLLER, trigger.trigger_id)
        if thing is not None and msgspec.json.decode(thing.body, type=Poller).server_id == server_id:
            await self._key_values.delete(POLLER, trigger.trigger_id, version=thing.version)

    async def _stored(self, name: str) -> KeyValue:
        thing = await self._key_values.get(TRIGGER, name)
        if thing is None:
            raise NotFoundError(f'there is no trigger "{name}": noetl trigger list shows them')
        return thing

    async def _all(self, kind: str, *, prefix: str = "") -> list[KeyValue]:
        found: list[KeyValue] = []
        while True:
            beyond = found[-1].name if found else None
            page = await self._key_values.list(kind, prefix=prefix, limit=_PAGE, beyond=beyond)
            found += page
            if len(page) < _PAGE:
                return found


def _letter_name(trigger: SourceTrigger, item_id: str) -> str:
    # Hashed: the id of an item comes from its source and may be of any length.
    return f"{trigger.trigger_id}/{derived(item_id)}"
