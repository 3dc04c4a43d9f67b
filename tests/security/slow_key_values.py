"""Key values whose calls take a while, so that others get their turn between any two of them, as with a database."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.store.installation import KeyValue, MemoryKeyValues


class SlowKeyValues(MemoryKeyValues):
    async def list(self, kind: str, **more: Any) -> list[KeyValue]:
        await asyncio.sleep(0)
        rows = await super().list(kind, **more)
        await asyncio.sleep(0)
        return rows

    async def put(self, kind: str, name: str, body: bytes, *, over: int, at: float) -> KeyValue | None:
        await asyncio.sleep(0)
        row = await super().put(kind, name, body, over=over, at=at)
        await asyncio.sleep(0)
        return row
