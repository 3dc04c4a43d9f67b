"""Deliveries of webhooks: checking signatures, and recognising repeated deliveries, so that each takes effect once
(reliability.md §2.4, §3.4).

`Noetl-Timestamp: 1735689600`, `Noetl-Signature: v1=<hex>`: HMAC-SHA256 over timestamp and raw body. A repeated delivery
is recognised by its id, which senders repeat, and by its signature: the id is not signed, so an intercepted copy could
be sent under another id.
"""

from __future__ import annotations

import hashlib
import hmac
import re

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import RefusedError
from noetl.base.ids import uuid7
from noetl.secrets.encryption import are_same, digest_of
from noetl.store.installation import KeyValues

# How far a sender's clock may be off. It also bounds how long an intercepted delivery could be sent again.
TOLERANCE_S = 300.0
_TIMESTAMP = re.compile(r"[1-9]\d{0,11}", re.ASCII)
_SIGNATURE = re.compile(r"v1=([0-9a-f]{64})", re.ASCII)


class Signed(msgspec.Struct, frozen=True):
    """The signature in the headers of a delivery, not yet verified."""

    timestamp: str
    signature: str


def parse_signature(timestamp: str | None, signature: str | None, *, now: float) -> Signed | None:
    """The signature in these headers; None for a malformed one, or one that is more than five minutes off."""
    time = _TIMESTAMP.fullmatch(timestamp or "")
    mark = _SIGNATURE.fullmatch(signature or "")
    if time is None or mark is None or abs(now - int(time[0])) > TOLERANCE_S:
        return None
    return Signed(time[0], mark[1])


def signature_of(secret: str, timestamp: str, body: bytes) -> str:
    # The timestamp is signed too: otherwise an intercepted delivery could be sent again with a new one.
    return hmac.digest(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hex()


def is_signed(signed: Signed, secret: str, body: bytes) -> bool:
    return are_same(signed.signature, signature_of(secret, signed.timestamp, body))


KIND = "delivery"
# Senders retry for days, so a repeated delivery must be recognised for longer.
KEPT_S = 7 * 24 * 3_600.0
SWEPT_EVERY_S = 3_600.0


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A received delivery. It is stored before its effect, so that every retry has the same effect."""

    # The id of the execution that it starts or of the message that it sends.
    effect_id: str
    # A delivery with the same id and another body is refused.
    body_hash: str


class WebhookDeliveries:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        self._swept_at = clock.now()

    async def effect_of(self, hook_id: str, delivery_id: str | None, signed: Signed, body: bytes) -> str:
        """The id of this delivery's effect: a new id for a new delivery, the stored one for a repeated delivery.
        RefusedError if another body was delivered under the same id."""
        await self._sweep()
        by_signature = f"{hook_id}/signature/{signed.signature}"
        # First, since the id is not signed: an intercepted copy must not take the id of a delivery that is yet to come.
        if (copy := await self._key_values.get(KIND, by_signature)) is not None:
            return msgspec.json.decode(copy.body, type=Delivery).effect_id
        delivery = Delivery(effect_id=uuid7(self._clock.now()), body_hash=hashlib.sha256(body).hexdigest())
        if delivery_id is not None:
            stored = await self._stored_delivery(f"{hook_id}/id/{digest_of(delivery_id)}", delivery)
            if stored.body_hash != delivery.body_hash:
                raise RefusedError("another body was delivered under this id")
            # Use the effect id of the first delivery; the signature below is recorded with the same one.
            delivery = stored
        return (await self._stored_delivery(by_signature, delivery)).effect_id

    async def _stored_delivery(self, name: str, fresh: Delivery) -> Delivery:
        """The delivery that is stored under this name; stores `fresh` if there is none."""
        if await self._key_values.put(KIND, name, msgspec.json.encode(fresh), over=0, at=self._clock.now()):
            return fresh
        row = await self._key_values.get(KIND, name)
        return msgspec.json.decode(row.body, type=Delivery) if row is not None else fresh

    async def _sweep(self) -> None:
        now = self._clock.now()
        if now - self._swept_at >= SWEPT_EVERY_S:
            self._swept_at = now
            await self._key_values.sweep(KIND, before=now - KEPT_S)
