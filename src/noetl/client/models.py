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


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What an execution, or one of its steps, gave."""

    execution_id: str
    status: str
    result: Any = None
    error: dict[str, Any] | None = None
    step: str | None = None

    @property
    def ok(self) -> bool:
        return self.status in ("completed", "done")


class PlaybookInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a playbook in the catalogue. What follows `registered_at` is told when it is registered."""

    path: str
    version: int
    label: str | None = None
    catalog_id: str = ""
    net_hash: str = ""
    registered_at: str = ""
    created: bool = True
    dialect: str = ""
    verdict: str = ""
    diagnostics: list[dict[str, Any]] = []


class AuditPageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`next` is the row to give as `before` for the page after, None at the end."""

    rows: list[dict[str, Any]]
    next: str | None = None


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


class PlaybookLimitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`written` is what the playbook says, `limit` what was set instead; each key has a line of its own."""

    path: str
    key: Any = None
    written: int | None = None
    limit: int | None = None
    running: int = 0
    waiting: int = 0


class StepLimit(msgspec.Struct, frozen=True, kw_only=True):
    """`written` and `written_rate` are the playbook's, `limit` and `rate` what was set instead. Rates are {limit, per},
    `per` in seconds; as written they may be templates."""

    step: str
    key: Any = None
    written: Any = None
    limit: int | None = None
    written_rate: dict[str, Any] | None = None
    rate: dict[str, Any] | None = None
    running: int = 0
    waiting: int = 0
    paced: int = 0


class WhoAmI(msgspec.Struct, frozen=True, kw_only=True):
    subject: str
    role: str
    human_roles: list[str] = []
