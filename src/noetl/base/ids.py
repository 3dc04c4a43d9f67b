"""UUIDv7 for what people start, digests for what follows from it (TOK-06, O-05).

A digest of its cause makes a repeated decision collide with the first one instead of adding a second.
"""

from __future__ import annotations

import os
import uuid
from functools import lru_cache
from hashlib import sha256

SEPARATOR = "\x1f"  # of the parts of an identity
_STEP_DIGITS = 8


def uuid7(seconds: float, randomness: bytes | None = None) -> str:
    """A UUID that sorts by the time it was made; `randomness` (10 bytes) makes it repeatable in tests."""
    tail = int.from_bytes(randomness or os.urandom(10), "big")
    value = (int(seconds * 1000) & 0xFFFF_FFFF_FFFF) << 80 | tail
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def derived(*parts: object) -> str:
    """An identity that follows from its parts: 128 bits of SHA-256, as hexadecimal text."""
    return sha256(SEPARATOR.join(map(str, parts)).encode()).hexdigest()[:32]


def derived_after(cause: str, *parts: object) -> str:
    """The same for what `cause` has led to: it begins with one more than its cause, so that ids sort about as things
    happen, and an index of them grows at its end instead of everywhere. 96 bits of it are of the digest."""
    return after_cause(cause, SEPARATOR.join(map(str, parts)))


def after_cause(cause: str, text: str) -> str:
    """The same for parts that are joined already, for what comes by the thousand."""
    return _step_after(cause[:_STEP_DIGITS]) + sha256(text.encode()).hexdigest()[:24]


@lru_cache(maxsize=1024)  # a step's events share a few causes: 0.6 µs an event
def _step_after(step: str) -> str:
    try:
        return f"{(int(step, 16) + 1) & 0xFFFF_FFFF:08x}"
    except ValueError:  # a name that somebody has chosen
        return f"{0:08x}"
