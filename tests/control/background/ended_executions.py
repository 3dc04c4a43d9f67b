"""Executions that have ended, put straight into a store."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.steps import CtxPatched
from noetl.store.contract import Store
from tests.contracts.commits import commit, event


async def ended(
    store: Store, name: str, at: float | None, *values: Any, retention: Any = None, path: str = "p"
) -> None:
    patches = [CtxPatched(patch={"v": one}) for one in values]
    events = [event(number, execution_id=name, payload=one) for number, one in enumerate(patches, 2)]
    one = commit(event(1, execution_id=name), *events)
    metadata = {} if retention is None else {"retention": retention}
    row = msgspec.structs.replace(one.execution, finished_at=at, status="completed", net_hash=f"n{retention}{path}")
    net = msgspec.json.encode({"path": path, "metadata": metadata})
    await store.commit([msgspec.structs.replace(one, execution=row, net=net)])
