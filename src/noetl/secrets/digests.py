"""Secrets that are shown once and kept as digests, and the only way here to compare them (reliability.md §2.3)."""

from __future__ import annotations

import hashlib
import hmac
import secrets

BYTES = 32  # 256 bits: nobody guesses them, so a plain hash of one is safe to keep


def fresh_secret() -> str:
    return secrets.token_urlsafe(BYTES)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def are_same(given: str, kept: str) -> bool:
    """Whether two texts are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), kept.encode("utf-8", "surrogatepass"))
