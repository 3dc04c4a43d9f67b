"""Webhooks: each has a secret address, a secret signing key, and one action for other systems (design.md §8).

Checking a signature needs the key itself, so it is encrypted under the master key, not hashed; without a master key
there are no webhooks. A sender without address and key cannot find out whether a webhook exists.
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
from noetl.secrets.encryption import FILE_VARIABLE, VARIABLE, MasterKeys, fresh_secret, opened, rewrapped, seal
from noetl.store.installation import KeyValue, KeyValues, each_key_value

KIND = "webhook"
_NAME = re.compile(r"[\w.-]{1,100}")
_HOOK_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)  # 128 bits
_FIELD = re.compile(r"\w[\w-]*(?:\.\w[\w-]*)*")


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook without its key; deliveries go to `/hooks/{hook_id}`."""

    name: str
    hook_id: str
    target: WebhookTarget
    created_at: float
    created_by: str


class StoredWebhook(Webhook, frozen=True, kw_only=True):
    sealed: SealedCredential


class Webhooks:
    """`keys` returns the current master keys of this installation."""

    def __init__(self, key_values: KeyValues, keys: Callable[[], MasterKeys], clock: Clock) -> None:
        self._key_values, self._keys, self._clock = key_values, keys, clock
        self._decoy_row: tuple[str, bytes] | None = None

    async def create(self, name: str, target: WebhookTarget, *, by: str) -> tuple[str, Webhook]:
        """Create a webhook; returns its signing key, which cannot be read again later, and the webhook."""
        _validate(name, target)
        keys = self._keys()
        if not keys:
            raise InvalidError(
                "a webhook's key is stored encrypted, and there is no master key: set "
                f"{VARIABLE} or {FILE_VARIABLE} where the server runs, or store a first credential there"
            )
        # Rows are stored under the secret id, so names are compared here.
        if any(hook.name == name for hook in await self.list()):
            raise InvalidError(f'there is a webhook "{name}" already: delete it first, or choose another name')
        key = fresh_secret()
        stored = self._new_webhook(name, target, key, keys, by=by)
        await self._key_values.put(KIND, stored.hook_id, msgspec.json.encode(stored), over=0, at=stored.created_at)
        return key, _webhook(stored)

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
        rows = each_key_value(self._key_values, KIND)
        hooks = [_webhook(_decode_webhook(row.name, row.body)) async for row in rows]
        return sorted(hooks, key=lambda hook: hook.name)

    async def delete(self, name: str) -> bool:
        hooks = [hook for hook in await self.list() if hook.name == name]
        return any([await self._key_values.delete(KIND, hook.hook_id) for hook in hooks])

    async def find(self, hook_id: str) -> tuple[Webhook | None, str]:
        """The webhook and its key. For an unknown id a decoy key is decrypted by the same steps, so that the duration
        does not reveal whether the webhook exists."""
        row = await self._key_values.get(KIND, hook_id) if _HOOK_ID.fullmatch(hook_id) else None
        keys = self._keys()
        if not keys:
            return None, fresh_secret()
        stored = _decode_webhook(hook_id, row.body if row is not None else self._decoy(keys))
        key = opened(stored.sealed, keys).decode()
        if row is None:
            return None, key
        if stored.sealed.key_id != keys.newest_id:
            await self._rewrap(row, stored, keys)
        return _webhook(stored), key

    def _decoy(self, keys: MasterKeys) -> bytes:
        """The row of a webhook that does not exist, with a random key."""
        if self._decoy_row is None or self._decoy_row[0] != keys.newest_id:
            decoy = self._new_webhook("nowhere", WebhookTarget(path="nowhere"), fresh_secret(), keys, by="nobody")
            self._decoy_row = keys.newest_id, msgspec.json.encode(decoy)
        return self._decoy_row[1]

    async def _rewrap(self, row: KeyValue, stored: StoredWebhook, keys: MasterKeys) -> None:
        """Encrypt the key under the newest master key, at the first delivery after a rotation."""
        renewed = msgspec.structs.replace(stored, sealed=rewrapped(stored.sealed, keys))
        body = msgspec.json.encode(renewed)
        # If another server was faster, it has stored the same key; the refused write does no harm.
        await self._key_values.put(KIND, row.name, body, over=row.version, at=self._clock.now())


def _decode_webhook(hook_id: str, body: bytes) -> StoredWebhook:
    try:
        return msgspec.json.decode(body, type=StoredWebhook)
    except msgspec.DecodeError as problem:
        raise BackendError(f"webhook {hook_id} cannot be read: {problem}") from problem


def _webhook(stored: StoredWebhook) -> Webhook:
    return Webhook(**{field: getattr(stored, field) for field in Webhook.__struct_fields__})


def _validate(name: str, target: WebhookTarget) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidError("a webhook's name is 1 to 100 letters, digits and . _ -")
    if (target.path is None) == (target.message is None):
        raise InvalidError("a webhook starts a playbook or sends a message: name exactly one of them")
    if target.message is None and target.correlation:
        raise InvalidError("a correlation belongs to a message, and this webhook starts a playbook")
    if target.path is None and target.version is not None:
        raise InvalidError("a version belongs to a playbook, and this webhook sends a message")
    for key, field in target.correlation.items():
        if not key or not _FIELD.fullmatch(field):
            raise InvalidError(f'"{key}={field}" is not a correlation: write key=field.of.the.body')


def webhook_view(hook: Webhook) -> WebhookShape:
    return view_of(WebhookShape, hook, url=f"/hooks/{hook.hook_id}")


def made_webhook(key: str, hook: Webhook) -> MadeWebhook:
    return view_of(MadeWebhook, hook, url=f"/hooks/{hook.hook_id}", secret=key)
