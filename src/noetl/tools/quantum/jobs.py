"""Jobs: requests to a provider, and the provider's reports on them. Part of the plug-in API (QNT-03)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from noetl.base.addresses.policy import UNGUARDED, AddressGuard
from noetl.events.outcomes import Reference
from noetl.tools.quantum.circuits import Circuit

JOB = "quantum.job"
UNAVAILABLE = "quantum.provider_unavailable"


class JobState(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"

    @property
    def is_over(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`source` is the circuit as its author wrote it. `key` is the same whenever the same task run asks again, so a
    provider that recognises it makes no second job (reliability.md §3.4). `queue_s` and `run_s` are for simulators."""

    circuit: Circuit
    source: Any
    shots: int
    seed: int
    key: str
    backend: str | None = None
    parameters: dict[str, float] = {}
    hints: dict[str, Any] = {}
    queue_s: float = 0.0
    run_s: float = 0.0


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job. A finished job has `counts`, a failed one has `error`; `details` are further data of the
    provider for the log, above all versions (QNT-05)."""

    job_id: str
    state: JobState
    counts: dict[str, int] | None = None
    error: str | None = None
    details: dict[str, Any] = {}


class JobContext(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of a provider: the clock, the results store, and the credential that the task names. It connects
    only to addresses that `addresses` gives."""

    now: Callable[[], float]
    credential: Mapping[str, Any] | None = None
    keep: Callable[[Any], Reference] | None = None
    load: Callable[[Reference], Any] | None = None
    addresses: AddressGuard = UNGUARDED


class Provider(Protocol):
    """A provider. Raises ToolError `quantum.provider_unavailable` if it cannot be used here."""

    async def submit(self, request: JobRequest, around: JobContext) -> Job:
        """Submit a job, and return at once."""

    async def status(self, job_id: str, around: JobContext) -> Job:
        """The status of a job, without counts."""

    async def results(self, job_id: str, around: JobContext) -> Job:
        """The job, with its counts if it is done."""

    async def cancel(self, job_id: str, around: JobContext) -> Job:
        """Cancel the job, unless it has ended."""
