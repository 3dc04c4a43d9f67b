"""Credentials as they are kept: sealed. Nothing here can be read without the master key (reliability.md §2.6)."""

from __future__ import annotations

import msgspec


class SealedCredential(msgspec.Struct, frozen=True, kw_only=True):
    """One stored credential. `wrapped_key` is its own data key, sealed by the master key `key_id`; `sealed` is the
    value, sealed by that data key. `version` counts how often it was set; `fingerprint` tells equal values apart
    from others without telling them."""

    name: str
    type: str
    version: int
    key_id: str
    wrapped_key: bytes
    sealed: bytes
    fingerprint: str
    created_at: float
    updated_at: float
