"""The simulators: `simulator`, exact and built in, and `aer`, which is Qiskit's (QNT-03). No queue unless asked for.

A job is a promise and no process: its identity leads to everything it was asked for, so any worker can tell how it
stands and what it gives, before or after a crash. Which of the two counts is settled when a job is submitted: the same
circuit, shots and seed give the same counts, whatever else is installed where they are asked for.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from importlib.util import find_spec
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.events.references import Reference
from noetl.tools.quantum.circuits import Circuit
from noetl.tools.quantum.jobs import JOB, UNAVAILABLE, Job, JobContext, JobRequest, JobState
from noetl.tools.quantum.process import Engine
from noetl.tools.quantum.statevector import MAX_QUBITS, TooLargeError, counts_of

VERSION = 1  # of how counts are drawn: raised when the same seed would give others
_IN_PLACE = 200_000  # amplitudes times gates: what is over in a moment is not worth a thread
_LARGER = "provider: aer of noetl-engine[quantum] takes larger ones"


class _Ticket(msgspec.Struct, frozen=True, array_like=True):
    """What a job's identity says: where its circuit is kept, and what is done with it, when."""

    circuit: Reference
    shots: int
    seed: int
    at: float
    queue_s: float
    run_s: float
    by_aer: bool = False


class Simulator:
    """`always_aer`: this one is `aer`. The other turns to it only for circuits that it cannot take itself."""

    def __init__(self, aer: Engine, *, always_aer: bool = False) -> None:
        self._aer, self._always_aer = aer, always_aer
        self._cancelled: set[str] = set()

    async def submit(self, request: JobRequest, around: JobContext) -> Job:
        if around.keep is None:
            raise ToolError(UNAVAILABLE, "the simulator needs a results store to keep circuits in")
        by_aer = self._always_aer or (request.circuit.qubits > MAX_QUBITS and _has_aer())
        if by_aer:
            _check_aer()
        kept = around.keep(msgspec.to_builtins(request.circuit))
        ticket = _Ticket(kept, request.shots, request.seed, around.now(), request.queue_s, request.run_s, by_aer)
        job_id = urlsafe_b64encode(msgspec.json.encode(ticket)).decode().rstrip("=")
        # the log names the circuit, so it is kept as long as the log
        told = {"versions": _versions(ticket), "circuit": msgspec.to_builtins(kept)}
        return Job(job_id=job_id, state=self._state(job_id, ticket, around), told=told)

    async def status(self, job_id: str, around: JobContext) -> Job:
        ticket = _ticket(job_id)
        state = self._state(job_id, ticket, around)
        error = _refusal(ticket, around) if state is JobState.DONE else None
        told = {"versions": _versions(ticket)}
        return Job(job_id=job_id, state=JobState.ERROR if error else state, error=error, told=told)

    async def results(self, job_id: str, around: JobContext) -> Job:
        job = await self.status(job_id, around)
        if job.state is not JobState.DONE:
            return job
        ticket = _ticket(job_id)
        circuit = _circuit(ticket, around)
        try:
            counts = await self._counts(circuit, ticket)
        except TooLargeError as problem:
            error = str(problem) if ticket.by_aer else f"{problem}; {_LARGER}"
            return msgspec.structs.replace(job, state=JobState.ERROR, error=error)
        told = {**job.told, "seed": ticket.seed, "shots": ticket.shots, "circuit_checksum": circuit.checksum}
        return msgspec.structs.replace(job, counts=counts, told=told)

    async def cancel(self, job_id: str, around: JobContext) -> Job:
        """Nothing runs that could be stopped; this worker tells from now on that it was."""
        job = await self.status(job_id, around)
        if job.state.is_over:
            return job
        self._cancelled.add(job_id)
        return msgspec.structs.replace(job, state=JobState.CANCELLED)

    async def _counts(self, circuit: Circuit, ticket: _Ticket) -> dict[str, int]:
        """TooLargeError says why there are none."""
        if ticket.by_aer:
            _check_aer()
            call = {"circuit": msgspec.to_builtins(circuit), "shots": ticket.shots, "seed": ticket.seed}
            told = await self._aer.ask(**call)
            if "error" in told:
                raise TooLargeError(told["error"])
            return dict(told["counts"])
        if len(circuit.operations) << circuit.qubits <= _IN_PLACE:
            return counts_of(circuit, ticket.shots, ticket.seed)
        return await asyncio.to_thread(counts_of, circuit, ticket.shots, ticket.seed)

    def _state(self, job_id: str, ticket: _Ticket, around: JobContext) -> JobState:
        if job_id in self._cancelled:
            return JobState.CANCELLED
        age = around.now() - ticket.at
        if age < ticket.queue_s:
            return JobState.QUEUED
        return JobState.RUNNING if age < ticket.queue_s + ticket.run_s else JobState.DONE


def _has_aer() -> bool:
    return find_spec("qiskit_aer") is not None


def _check_aer() -> None:
    if not _has_aer():
        raise ToolError(UNAVAILABLE, "this job needs Qiskit Aer, which is not here: install noetl-engine[quantum]")


def _versions(ticket: _Ticket) -> dict[str, Any]:
    if not ticket.by_aer:
        return {"simulator": VERSION}
    from importlib.metadata import version  # slow to import

    return {package: version(package) for package in ("qiskit", "qiskit-aer")} if _has_aer() else {}


def _refusal(ticket: _Ticket, around: JobContext) -> str | None:
    qubits = 0 if ticket.by_aer else _circuit(ticket, around).qubits
    if qubits <= MAX_QUBITS:
        return None
    return f"the simulator takes up to {MAX_QUBITS} qubits, and this circuit has {qubits}; {_LARGER}"


def _ticket(job_id: str) -> _Ticket:
    try:
        return msgspec.json.decode(urlsafe_b64decode(job_id + "=" * (-len(job_id) % 4)), type=_Ticket)
    except ValueError:
        raise ToolError(JOB, f'"{job_id}" is no job of the simulator') from None


def _circuit(ticket: _Ticket, around: JobContext) -> Circuit:
    if around.load is None:
        raise ToolError(UNAVAILABLE, "the simulator needs a results store to read circuits from")
    try:
        return msgspec.convert(around.load(ticket.circuit), Circuit)
    except msgspec.ValidationError:
        raise ToolError(JOB, "what this job names is no circuit") from None
