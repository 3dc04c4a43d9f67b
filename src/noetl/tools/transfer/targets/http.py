"""Rows to an HTTP endpoint: one request for each chunk, its body the rows, or `{rows_key: rows}`.

There is no transaction to record anything in; each request carries an idempotency key of its own, the same for every
attempt, by which the other side can know it again (reliability.md §3.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.transfer.calls import TransferEnd
from noetl.tools.transfer.contract import Rows, TransferProgress


class HttpTarget:
    def __init__(self, end: TransferEnd, mode: str) -> None:
        if mode != "append":
            raise ToolError("transfer.input", f'an http target only takes rows: mode "{mode}" is for tables')
        self._end = end
        self._sent = 0

    async def progress(self) -> TransferProgress:
        return TransferProgress()

    async def write(self, pieces: list[Rows], progress: TransferProgress) -> None:
        key = self._end.said.get("rows_key")
        for piece in pieces:
            self._sent += 1
            body = {str(key): piece} if key else piece
            method = self._end.said.get("method") or "POST"
            await self._end.call({"method": method, "json": body}, key=f"chunk-{self._sent}")

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        url = str(self._end.said.get("url")).partition("?")[0]
        address = url.rpartition("@")[2] if "@" in url else url
        return {"store": "http", "key": address, "size": progress.size, "row_count": progress.rows}
