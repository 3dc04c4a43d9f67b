"""Requests: what the tool asks its child process to do."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.addresses.policy import AddressPolicy
from noetl.tools.contents import MAX_BYTES
from noetl.tools.storage.locations import Location

DEFAULT_TIMEOUT_S = 300.0
EXPIRES_S, INTERVAL_S = 3600.0, 5.0
LIMIT = 1_000


class End(msgspec.Struct, frozen=True):
    """One object or folder, and the settings of its store."""

    location: Location
    fields: dict[str, Any] = {}


class StorageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. `folders` are the folders that file URLs may name; `key` is the idempotency key."""

    op: str
    source: End
    target: End | None = None
    body: bytes = b""
    media_type: str = ""
    if_absent: bool = False
    if_match: str | None = None
    first_byte: int = 0
    end_byte: int | None = None
    max_bytes: int = MAX_BYTES
    format: str = "auto"
    pattern: str = ""
    recursive: bool | None = None
    limit: int = LIMIT
    cursor: Any = None
    wait_s: float = 0.0
    interval_s: float = INTERVAL_S
    expires_s: float = EXPIRES_S
    method: str = "GET"
    key: str = ""
    folders: tuple[str, ...] = ()
    policy: AddressPolicy = AddressPolicy()
    timeout_s: float = DEFAULT_TIMEOUT_S
