"""Credentials as they are kept: sealed. Nothing here can be read without the master key (reliability.md §2.6)."""

from __future__ import annotations

import msgspec


class SealedCredential(msgspec.Struct, frozen=True, kw_only=True):
    """One stored credential."""

    name: str
    type: str
    # Counts how often it was set. Bound to the ciphertext, so that an older row does not open in the place of a newer.
    version: int
    # The master key that seals `wrapped_key`: rotating it seals the small key anew, never the value.
    key_id: str
    wrapped_key: bytes  # the data key of this value alone
    sealed: bytes  # the value, under that data key
    fingerprint: str  # tells equal values apart from others without telling them
    created_at: float
    updated_at: float
