"""Signatures of webhook deliveries: HMAC-SHA256 over timestamp and raw body, and how old one may be (reliability.md
§2.4).

`Noetl-Timestamp: 1735689600`, `Noetl-Signature: v1=<hex>`. Pure: it is given the secret, the headers and the time.
"""

from __future__ import annotations

import hashlib
import hmac
import re

import msgspec

from noetl.secrets.digests import are_same

TOLERANCE_S = 300.0
_TIMESTAMP = re.compile(r"[1-9]\d{0,11}", re.ASCII)
_SIGNATURE = re.compile(r"v1=([0-9a-f]{64})", re.ASCII)


class Signed(msgspec.Struct, frozen=True):
    """What a delivery claims: not yet checked."""

    timestamp: str
    signature: str


def claimed(timestamp: str | None, signature: str | None, *, now: float) -> Signed | None:
    """The claim, if it is one: in the right shape, and of the last or next five minutes."""
    time = _TIMESTAMP.fullmatch(timestamp or "")
    mark = _SIGNATURE.fullmatch(signature or "")
    if time is None or mark is None or abs(now - int(time[0])) > TOLERANCE_S:
        return None
    return Signed(time[0], mark[1])


def signature_of(secret: str, timestamp: str, body: bytes) -> str:
    return hmac.digest(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hex()


def is_signed(signed: Signed, secret: str, body: bytes) -> bool:
    return are_same(signed.signature, signature_of(secret, signed.timestamp, body))
