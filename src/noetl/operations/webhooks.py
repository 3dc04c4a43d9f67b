"""Webhooks: doors for other systems, each with a secret address, a secret key, and one thing it does (design.md §8).

The key is needed whole to check signatures, so it is sealed under the master key, not hashed; without a master key
there are no webhooks. Who knows neither address nor key cannot tell whether a webhook exists.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, InvalidError
from noetl.events.secret_materials import SealedCredential
from noetl.operations.administration_shapes import MadeWebhook, WebhookShape, WebhookTarget
from noetl.operations.api_shapes import view_of
from noetl.secrets.encryption import fresh_secret, opened, rewrapped, seal
from noetl.secrets.master_keys import FILE_VARIABLE, VARIABLE, MasterKeys
from noetl.store.installation import KeyValue, KeyValues

KIND = "webhook"
_NAME = re.compile(r"[\w.-]{1,100}")
_HOOK_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)  # 128 bits
_FIELD = re.compile(r"\w[\w-]*(?:\.\w[\w-]*)*")


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook as it may be shown; deliveries go to `/hooks/{hook_id}`."""

    name: str
    hook_id: str
    target: WebhookTarget
    created_at: float
    created_by: str


class StoredWebhook(Webhook, frozen=True, kw_only=True):
    sealed: SealedCredential


class Webhooks:
    """`keys` gives the master keys of this installation as they are now."""

    def __init__(self, key_values: KeyValues, keys: Callable[[], MasterKeys], clock: Clock) -> None:
        self._key_values, self._keys, self._clock = key_values, keys, clock
        self._nowhere: tuple[str, bytes] | None = None

    async def create(self, name: str, target: WebhookTarget, *, by: str) -> tuple[str, Webhook]:
        """The signing key, which nobody can tell again, and the webhook."""
        _refuse_if_wrong(name, target)
        keys = self._keys()
        if not keys:
            raise InvalidError(
                "a webhook's key is kept sealed, and there is no master key: set "
                f"{VARIABLE} or {FILE_VARIABLE} where the server runs, or store a first credential there"
            )
        if any(one.name == name for one in await self.list()):
            raise InvalidError(f'there is a webhook "{name}" already: delete it first, or choose another name')
        key = fresh_secret()
        kept = self._new_webhook(name, target, key, keys, by=by)
        await self._key_values.put(KIND, kept.hook_id, msgspec.json.encode(kept), over=0, at=kept.created_at)
        return key, _webhook(kept)

    def _new_webhook(self, name: str, target: WebhookTarget, key: str, keys: MasterKeys, *, by: str) -> StoredWebhook:
        now, hook_id = self._clock.now(), secrets.token_hex(16)
        return StoredWebhook(
            name=name,
            hook_id=hook_id,
            target=target,
            created_at=now,
            created_by=by,
            sealed=seal(f"webhook {hook_id}", KIND, 1, key.encode(), keys, now=now),
        )

    async def list(self) -> list[Webhook]:
        found: list[Webhook] = []
        beyond: str | None = None
        while page := await self._key_values.list(KIND, beyond=beyond):
            found += [_webhook(_read(thing.name, thing.body)) for thing in page]
            beyond = page[-1].name
        return sorted(found, key=lambda one: one.name)

    async def delete(self, name: str) -> bool:
        hooks = [one for one in await self.list() if one.name == name]
        return any([await self._key_values.delete(KIND, one.hook_id) for one in hooks])

    async def find(self, hook_id: str) -> tuple[Webhook | None, str]:
        """The webhook and its key; without one a key that fits nothing, found by the same steps, so that how long it
        takes tells nobody which it was."""
        thing = await self._key_values.get(KIND, hook_id) if _HOOK_ID.fullmatch(hook_id) else None
        keys = self._keys()
        if not keys:
            return None, fresh_secret()
        kept = _read(hook_id, thing.body if thing is not None else self._decoy(keys))
        key = opened(kept.sealed, keys).decode()
        if thing is None:
            return None, key
        if kept.sealed.key_id != keys.newest_id:
            await self._rewrap(thing, kept, keys)
        return _webhook(kept), key

    def _decoy(self, keys: MasterKeys) -> bytes:
        """A webhook that is nowhere, with a key that nobody has."""
        if self._nowhere is None or self._nowhere[0] != keys.newest_id:
            made = self._new_webhook("nowhere", WebhookTarget(path="nowhere"), fresh_secret(), keys, by="nobody")
            self._nowhere = keys.newest_id, msgspec.json.encode(made)
        return self._nowhere[1]

    async def _rewrap(self, thing: KeyValue, kept: StoredWebhook, keys: MasterKeys) -> None:
        """Follow a rotation of the master key with the first delivery after it."""
        renewed = msgspec.structs.replace(kept, sealed=rewrapped(kept.sealed, keys))
        body = msgspec.json.encode(renewed)
        await self._key_values.put(KIND, thing.name, body, over=thing.version, at=self._clock.now())


def _read(hook_id: str, body: bytes) -> StoredWebhook:
    try:
        return msgspec.json.decode(body, type=StoredWebhook)
    except msgspec.DecodeError as problem:
        raise BackendError(f"webhook {hook_id} cannot be read: {problem}") from problem


def _webhook(kept: StoredWebhook) -> Webhook:
    return Webhook(**{field: getattr(kept, field) for field in Webhook.__struct_fields__})


def _refuse_if_wrong(name: str, target: WebhookTarget) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidError("a webhook's name is 1 to 100 letters, digits and . _ -")
    if (target.path is None) == (target.message is None):
        raise InvalidError("a webhook starts a playbook or sends a message: name one of them")
    if target.message is None and target.correlation:
        raise InvalidError("a correlation belongs to a message, and this webhook starts a playbook")
    if target.path is None and target.version is not None:
        raise InvalidError("a version belongs to a playbook, and this webhook sends a message")
    for key, field in target.correlation.items():
        if not key or not _FIELD.fullmatch(field):
            raise InvalidError(f'"{key}={field}" is no correlation: it is key=field.of.the.body')


def webhook_view(hook: Webhook) -> WebhookShape:
    return view_of(WebhookShape, hook, url=f"/hooks/{hook.hook_id}")


def made_webhook(key: str, hook: Webhook) -> MadeWebhook:
    return view_of(MadeWebhook, hook, url=f"/hooks/{hook.hook_id}", secret=key)
