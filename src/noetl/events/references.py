"""References: where a value lives that is too large to travel in an event (RES-02)."""

from __future__ import annotations

import msgspec

PARQUET = "application/vnd.apache.parquet"  # the media type of tables: rows that are kept as a file


class Reference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`checksum` is the SHA-256 of the stored bytes and is verified on every read; `size` counts those bytes."""

    store: str  # the name of the result store: files, objects, nats, memory
    key: str  # where in it; for people, as values are read by their checksum
    checksum: str
    size: int
    schema_hint: str = ""  # object, array, string, json or table: what a view can say without loading it
    range: str | None = None
    media_type: str = "application/json"
