"""What the client returns, where it differs from the shapes of the API (`noetl.operations.api_shapes`)."""

from __future__ import annotations

from typing import Any

import msgspec


class StartedExecution(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that has begun. `result` and `error` are told when it ended while one waited; `diagnostics` are the
    warnings about the playbook's text."""

    execution_id: str
    path: str
    status: str
    trace_id: str = ""
    version: int | None = None
    catalog_id: str | None = None
    result: Any = None
    error: dict[str, Any] | None = None
    diagnostics: list[dict[str, Any]] = []


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: str
    pools: list[str] = []
    capacity: int = 0
    labels: dict[str, str] = {}
    kinds: list[str] = []
    protocol: int = 1
    version: str = ""
    registered_at: str = ""
    last_seen: str = ""
    live: bool = False
    leases: list[str] = []


class PoolInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`capacity` None: as many as its workers can take. `rate` is {limit, per}, `per` in seconds. `require` are labels
    of the workers that may take its orders, `kinds` what those run, `obstacles` why orders wait that nobody takes."""

    name: str
    capacity: int | None = None
    rate: dict[str, Any] | None = None
    require: dict[str, str] = {}
    leased: int = 0
    workers: int = 0
    kinds: list[str] | None = None
    obstacles: list[str] = []

    @property
    def rate_text(self) -> str:
        return f"{self.rate['limit']} in {self.rate['per']:g} s" if self.rate else ""

    @property
    def require_text(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in sorted(self.require.items()))
