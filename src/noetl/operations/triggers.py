"""What can be asked of triggers: on a server, and on the store itself.

A trigger is made, looked at, paused, resumed and deleted here; a server polls it (`control/triggers`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noetl.base.clock import Clock, rfc3339
from noetl.base.durations import seconds
from noetl.base.errors import NotFoundError, RefusedError
from noetl.base.ids import uuid7
from noetl.control.triggers.trigger_store import TriggerStore
from noetl.events.triggers import DeadLetter, SourceTrigger, TriggerProgress
from noetl.net.kinds import Kinds, TriggerKind
from noetl.net.secret_reads import credential_name
from noetl.operations.administration_shapes import DeadLetterView, NewTrigger, TriggerView
from noetl.store.contract import Store

MOST_RUNNING = 1_000
SHORTEST_S, LONGEST_S = 0.1, 86_400.0
_NAME = re.compile(r"[\w.-]{1,100}")


class TriggerOperations:
    """`kinds` gives the table of tool kinds, when a trigger is made."""

    def __init__(self, store: Store, clock: Clock, kinds: Callable[[], Kinds]) -> None:
        self._store, self._clock, self._kinds = store, clock, kinds
        self._triggers = TriggerStore(store.key_values)

    async def create(self, asked: NewTrigger, *, by: str) -> TriggerView:
        """RefusedError says what is wrong with it."""
        _check_name(asked.name)
        await self._check_playbook(asked)
        inputs = _checked_inputs(asked, _trigger_kind(self._kinds(), asked.kind))
        now = self._clock.now()
        trigger = SourceTrigger(
            trigger_id=uuid7(now),
            name=asked.name,
            kind=asked.kind,
            inputs=inputs,
            path=asked.path,
            version=asked.version,
            interval_s=_interval(asked.interval),
            max_running=_max_running(asked.max_running),
            skip_existing=asked.skip_existing,
            created_at=now,
            created_by=by,
        )
        await self._triggers.create(trigger)
        return await self._view(trigger)

    async def all(self) -> list[TriggerView]:
        return [await self._view(one) for one in await self._triggers.triggers()]

    async def get(self, name: str) -> TriggerView:
        return await self._view(await self._triggers.get(name))

    async def pause(self, name: str) -> TriggerView:
        """Nothing is read until it is resumed; what arrives meanwhile is read then."""
        return await self._set_paused(name, True)

    async def resume(self, name: str) -> TriggerView:
        return await self._set_paused(name, False)

    async def delete(self, name: str) -> None:
        """Its executions go on."""
        await self._triggers.delete(name)

    async def dead_letters(self, name: str) -> list[DeadLetterView]:
        return [_letter_view(one) for one in await self._triggers.dead_letters(await self._triggers.get(name))]

    async def retry(self, name: str, item_id: str | None = None) -> int:
        """Have dead letters tried again, one or all; gives how many. A server does it at its next look."""
        trigger = await self._triggers.get(name)
        letters = await self._letters(trigger, item_id)
        if item_id is not None and letters[0].is_cut:
            raise RefusedError(f'"{item_id}" was too large to be kept: start the playbook yourself with what it was')
        wanted = [one for one in letters if not one.is_cut]
        for letter in wanted:
            await self._triggers.keep_dead_letter(trigger, msgspec.structs.replace(letter, retry=True))
        return len(wanted)

    async def discard(self, name: str, item_id: str | None = None) -> int:
        """Remove dead letters, one or all; gives how many."""
        trigger = await self._triggers.get(name)
        letters = await self._letters(trigger, item_id)
        for letter in letters:
            await self._triggers.drop_dead_letter(trigger, letter.item_id)
        return len(letters)

    async def _letters(self, trigger: SourceTrigger, item_id: str | None) -> list[DeadLetter]:
        letters = await self._triggers.dead_letters(trigger)
        found = [one for one in letters if item_id in (None, one.item_id)]
        if item_id is not None and not found:
            raise NotFoundError(f'the trigger "{trigger.name}" has no dead letter "{item_id}"')
        return found

    async def _set_paused(self, name: str, paused: bool) -> TriggerView:
        now = self._clock.now()
        changed = await self._triggers.change(
            name, lambda trigger: msgspec.structs.replace(trigger, paused=paused), at=now
        )
        return await self._view(changed)

    async def _check_playbook(self, asked: NewTrigger) -> None:
        if await self._store.catalog.find(asked.path, asked.version) is None:
            version = f' of version "{asked.version}"' if asked.version else ""
            raise RefusedError(f'"{asked.path}"{version} is not registered here: noetl register FILE first')

    async def _view(self, trigger: SourceTrigger) -> TriggerView:
        progress, _ = await self._triggers.progress(trigger)
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


def _letter_view(letter: DeadLetter) -> DeadLetterView:
    return DeadLetterView(
        item_id=letter.item_id,
        value=letter.value,
        is_cut=letter.is_cut,
        error=letter.error,
        at=rfc3339(letter.at),
        retry=letter.retry,
    )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise RefusedError("a trigger's name is 1 to 100 letters, digits and . _ -")


def _trigger_kind(kinds: Kinds, name: str) -> TriggerKind:
    found = kinds[name].trigger if name in kinds else None
    if found is None:
        known = ", ".join(sorted(kind.name for kind in kinds.values() if kind.trigger is not None))
        raise RefusedError(f'"{name}" starts no playbooks by itself: a trigger is one of {known}')
    return found


def _checked_inputs(asked: NewTrigger, kind: TriggerKind) -> dict[str, Any]:
    known = {one.name: one for one in kind.inputs}
    for name in asked.inputs:
        if name not in known:
            raise RefusedError(f'a trigger of {asked.kind} has no input "{name}": it has {", ".join(known)}')
    for one in kind.inputs:
        if one.required and asked.inputs.get(one.name) in (None, ""):
            raise RefusedError(f'a trigger of {asked.kind} needs the input "{one.name}": {one.doc}')
    _check_credential(asked.inputs)
    return dict(asked.inputs)


def _check_credential(inputs: Mapping[str, Any]) -> None:
    """Triggers are shown to whoever may look: an address with a password in it must not be one of their inputs."""
    auth = inputs.get("auth")
    if auth is not None and (not isinstance(auth, str) or credential_name(auth) is None):
        raise RefusedError('"auth" of a trigger is the name of a stored credential: noetl credential set NAME')


def _interval(written: str | float) -> float:
    try:
        found = seconds(written)
    except ValueError as problem:
        raise RefusedError(f"interval: {problem}") from None
    if not SHORTEST_S <= found <= LONGEST_S:
        raise RefusedError(f"interval: {found:g} s is not from {SHORTEST_S:g} s to a day")
    return found


def _max_running(count: int) -> int:
    if not 1 <= count <= MOST_RUNNING:
        raise RefusedError(f"max_running: {count} is not a number from 1 to {MOST_RUNNING:,}")
    return count
