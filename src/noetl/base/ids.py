"""UUIDv7 for what people start, digests for ids that are derived (TOK-06, O-05).

An id is a digest of its cause, so a repeated decision gives the same id and adds nothing.
"""

from __future__ import annotations

import os
import uuid

try:  # Python's own, where it has one: half the time of OpenSSL's for texts as short as these, and the same digest
    from _sha256 import sha256  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    from hashlib import sha256

SEPARATOR = "\x1f"  # separates the parts of an id


def uuid7(seconds: float, randomness: bytes | None = None) -> str:
    """A UUID that sorts by the time it was made; `randomness` (10 bytes) makes it repeatable in tests."""
    tail = int.from_bytes(randomness or os.urandom(10), "big")
    value = (int(seconds * 1000) & 0xFFFF_FFFF_FFFF) << 80 | tail
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def derived(*parts: object) -> str:
    """An identity that follows from its parts: 128 bits of SHA-256, as hexadecimal text."""
    digest: str = sha256(SEPARATOR.join(map(str, parts)).encode()).hexdigest()
    return digest[:32]


def positional(execution_id: str, seq: int) -> str:
    """The id of an event that its position names. No store keeps a second event there, so it is unique without a key of
    its own, and stores need not write it down (docs/decisions/0018)."""
    return f"{execution_id}/{seq}"
