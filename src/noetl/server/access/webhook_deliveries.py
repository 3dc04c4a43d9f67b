"""Deliveries of webhooks: whether they are signed, and which have been taken, so that each takes effect once
(reliability.md §2.4, §3.4).

`Noetl-Timestamp: 1735689600`, `Noetl-Signature: v1=<hex>`: HMAC-SHA256 over timestamp and raw body. A delivery is known
by its id, which senders repeat when they try again, and by its signature: the id is not signed, so a copy that was
caught and sent under another id is known by that.
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

# How far clocks of senders may be off. It bounds too for how long a caught delivery could be sent again.
TOLERANCE_S = 300.0
_TIMESTAMP = re.compile(r"[1-9]\d{0,11}", re.ASCII)
_SIGNATURE = re.compile(r"v1=([0-9a-f]{64})", re.ASCII)


class Signed(msgspec.Struct, frozen=True):
    """The signature that a delivery carries: not yet checked."""

    timestamp: str
    signature: str


def given_signature(timestamp: str | None, signature: str | None, *, now: float) -> Signed | None:
    """The signature, if it is one: in the right shape, and of the last or next five minutes."""
    time = _TIMESTAMP.fullmatch(timestamp or "")
    mark = _SIGNATURE.fullmatch(signature or "")
    if time is None or mark is None or abs(now - int(time[0])) > TOLERANCE_S:
        return None
    return Signed(time[0], mark[1])


def signature_of(secret: str, timestamp: str, body: bytes) -> str:
    return hmac.digest(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hex()


def is_signed(signed: Signed, secret: str, body: bytes) -> bool:
    return are_same(signed.signature, signature_of(secret, signed.timestamp, body))


KIND = "delivery"
# Senders try again for days; a repetition must be recognised for longer.
KEPT_S = 7 * 24 * 3_600.0
SWEPT_EVERY_S = 3_600.0


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that was taken. Stored before its effect, so that every try has the same one."""

    # The execution that it starts or the message that it sends, whichever try gets there.
    effect_id: str
    body_hash: str  # the same id with another body is another delivery, and refused


class WebhookDeliveries:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        self._swept_at = clock.now()

    async def effect_of(self, hook_id: str, delivery_id: str | None, signed: Signed, body: bytes) -> str:
        """The identity of this delivery's effect: a new one for a new delivery, the old one for a repeated one.
        RefusedError when another body came under the same id."""
        await self._sweep()
        here = Delivery(effect_id=uuid7(self._clock.now()), body_hash=hashlib.sha256(body).hexdigest())
        if delivery_id is not None:
            known = await self._stored_delivery(f"{hook_id}/id/{digest_of(delivery_id)}", here)
            if known.body_hash != here.body_hash:
                raise RefusedError("another body was delivered under this id")
            here = known
        return (await self._stored_delivery(f"{hook_id}/signature/{signed.signature}", here)).effect_id

    async def _stored_delivery(self, name: str, fresh: Delivery) -> Delivery:
        """What is remembered under this name; `fresh` when nothing was."""
        if await self._key_values.put(KIND, name, msgspec.json.encode(fresh), over=0, at=self._clock.now()):
            return fresh
        there = await self._key_values.get(KIND, name)
        return msgspec.json.decode(there.body, type=Delivery) if there is not None else fresh

    async def _sweep(self) -> None:
        now = self._clock.now()
        if now - self._swept_at >= SWEPT_EVERY_S:
            self._swept_at = now
            await self._key_values.sweep(KIND, before=now - KEPT_S)
