"""Open executions by the thousand, each waiting for a message or a day to pass (W10).

They are begun by the engine itself, in blocks, so that whoever fills a store holds none of them in memory.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bench.playbooks import waiting
from noetl.operations.embedded import compiled, driving

_BLOCK = 2_000


async def fill(db: str | Path, number: int) -> None:
    net = compiled(waiting())
    for begun in range(0, number, _BLOCK):
        async with driving(db) as driver:
            await asyncio.gather(*(driver.start(net) for _ in range(min(_BLOCK, number - begun))))


if __name__ == "__main__":
    asyncio.run(fill(sys.argv[1], int(sys.argv[2])))
