"""The simulator: exact results for small circuits, without a queue unless one is asked for (QNT-03).

A job is a promise and no process: its identity leads to everything it was asked for, so any worker can tell how it
stands and what it gives, before or after a crash. The same circuit, shots and seed always give the same counts.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from importlib.util import find_spec
from typing import Any

import msgspec

from noetl.errors import ToolError
from noetl.records.references import Reference
from noetl.tools.quantum.circuits import Circuit
from noetl.tools.quantum.jobs import JOB, UNAVAILABLE, Job, JobRequest, JobState, Surroundings
from noetl.tools.quantum.statevector import MAX_QUBITS, TooLargeError, counts_of

VERSION = 1  # of how counts are drawn: raised when the same seed would give others
_IN_PLACE = 200_000  # amplitudes times gates: what is over in a moment is not worth a thread


class _Ticket(msgspec.Struct, frozen=True, array_like=True):
    """What a job's identity says: where its circuit is kept, and what is done with it, when."""

    circuit: Reference
    shots: int
    seed: int
    at: float
    queue_s: float
    run_s: float


class Simulator:
    def __init__(self) -> None:
        self._cancelled: set[str] = set()

    async def submit(self, request: JobRequest, around: Surroundings) -> Job:
        if around.keep is None:
            raise ToolError(UNAVAILABLE, "the simulator needs a results store to keep circuits in")
        kept = around.keep(msgspec.to_builtins(request.circuit))
        ticket = _Ticket(kept, request.shots, request.seed, around.now(), request.queue_s, request.run_s)
        job_id = urlsafe_b64encode(msgspec.json.encode(ticket)).decode().rstrip("=")
        told = {
            **_versions(),
            "circuit": msgspec.to_builtins(kept),
        }  # the log names it, so it is kept as long as the log
        return Job(job_id=job_id, state=self._state(job_id, ticket, around), told=told)

    async def status(self, job_id: str, around: Surroundings) -> Job:
        ticket = _ticket(job_id)
        state = self._state(job_id, ticket, around)
        error = _refusal(_circuit(ticket, around)) if state is JobState.DONE else None
        return Job(job_id=job_id, state=JobState.ERROR if error else state, error=error, told=_versions())

    async def results(self, job_id: str, around: Surroundings) -> Job:
        job = await self.status(job_id, around)
        if job.state is not JobState.DONE:
            return job
        ticket = _ticket(job_id)
        circuit = _circuit(ticket, around)
        try:
            counts = await _counts(circuit, ticket.shots, ticket.seed)
        except TooLargeError as problem:
            return msgspec.structs.replace(job, state=JobState.ERROR, error=str(problem))
        told = {**job.told, "seed": ticket.seed, "shots": ticket.shots, "circuit_checksum": circuit.checksum}
        return msgspec.structs.replace(job, counts=counts, told=told)

    async def cancel(self, job_id: str, around: Surroundings) -> Job:
        """Nothing runs that could be stopped; this worker tells from now on that it was."""
        job = await self.status(job_id, around)
        if job.state.is_over:
            return job
        self._cancelled.add(job_id)
        return msgspec.structs.replace(job, state=JobState.CANCELLED)

    def _state(self, job_id: str, ticket: _Ticket, around: Surroundings) -> JobState:
        if job_id in self._cancelled:
            return JobState.CANCELLED
        age = around.now() - ticket.at
        if age < ticket.queue_s:
            return JobState.QUEUED
        return JobState.RUNNING if age < ticket.queue_s + ticket.run_s else JobState.DONE


def _has_aer() -> bool:
    return find_spec("qiskit_aer") is not None


def _versions() -> dict[str, Any]:
    if _has_aer():
        from noetl.tools.quantum.aer import versions

        return {"versions": versions()}
    return {"versions": {"simulator": VERSION}}


def _refusal(circuit: Circuit) -> str | None:
    if circuit.qubits <= MAX_QUBITS or _has_aer():
        return None
    return f"the simulator takes up to {MAX_QUBITS} qubits, and this circuit has {circuit.qubits}"


async def _counts(circuit: Circuit, shots: int, seed: int) -> dict[str, int]:
    if _has_aer():
        from noetl.tools.quantum.aer import counts_by_aer

        return await asyncio.to_thread(counts_by_aer, circuit, shots, seed)
    if len(circuit.operations) << circuit.qubits <= _IN_PLACE:
        return counts_of(circuit, shots, seed)
    return await asyncio.to_thread(counts_of, circuit, shots, seed)


def _ticket(job_id: str) -> _Ticket:
    try:
        return msgspec.json.decode(urlsafe_b64decode(job_id + "=" * (-len(job_id) % 4)), type=_Ticket)
    except ValueError:
        raise ToolError(JOB, f'"{job_id}" is no job of the simulator') from None


def _circuit(ticket: _Ticket, around: Surroundings) -> Circuit:
    if around.load is None:
        raise ToolError(UNAVAILABLE, "the simulator needs a results store to read circuits from")
    try:
        return msgspec.convert(around.load(ticket.circuit), Circuit)
    except msgspec.ValidationError:
        raise ToolError(JOB, "what this job names is no circuit") from None
