"""Identities: UUIDv7 for what people start, digests for what follows from it (TOK-06, O-05).

A digest of its cause makes a repeated decision collide with the first one instead of adding a second.
"""

from __future__ import annotations

import hashlib
import os
import uuid


def uuid7(seconds: float, randomness: bytes | None = None) -> str:
    """A UUID that sorts by the time it was made; `randomness` (10 bytes) makes it repeatable in tests."""
    tail = int.from_bytes(randomness or os.urandom(10), "big")
    value = (int(seconds * 1000) & 0xFFFF_FFFF_FFFF) << 80 | tail
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def derived(*parts: object) -> str:
    """An identity that follows from its parts: 128 bits of SHA-256, as hexadecimal text."""
    text = "\x1f".join(str(part) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
