"""The simulators: `simulator`, exact and built in, and `aer`, which is Qiskit's (QNT-03). They have no queue unless one
is configured.

No process runs for a job: its id leads to all its inputs, so any worker can compute its status and results, before or
after a crash. The simulator is chosen when a job is submitted: the same circuit, shots and seed give the same counts,
regardless of the packages of the worker that reads them.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect
from collections import Counter
from importlib.util import find_spec
from itertools import accumulate
from random import Random
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.events.outcomes import Reference
from noetl.tools.quantum.circuits import GATES, MEASURE, RESET, Circuit, Operation
from noetl.tools.quantum.jobs import JOB, UNAVAILABLE, Job, JobContext, JobRequest, JobState
from noetl.tools.quantum.process import Engine

VERSION = 1  # the version of the drawing of counts: raised when the same seed would give other counts
_IN_PLACE = 200_000  # amplitudes times gates: a shorter simulation is not worth a thread
_LARGER = "provider: aer of noetl-engine[quantum] takes larger ones"


class _Ticket(msgspec.Struct, frozen=True, array_like=True):
    """The contents of a job id: the place of its circuit, and the times of its states."""

    circuit: Reference
    shots: int
    seed: int
    at: float
    queue_s: float
    run_s: float
    by_aer: bool = False


class Simulator:
    """`always_aer`: this is `aer`. The built-in one uses Aer only for circuits that are too large for it."""

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
        details = {"versions": _versions(ticket), "circuit": msgspec.to_builtins(kept)}
        return Job(job_id=job_id, state=self._state(job_id, ticket, around), details=details)

    async def status(self, job_id: str, around: JobContext) -> Job:
        ticket = _ticket(job_id)
        state = self._state(job_id, ticket, around)
        error = _refusal(ticket, around) if state is JobState.DONE else None
        details = {"versions": _versions(ticket)}
        return Job(job_id=job_id, state=JobState.ERROR if error else state, error=error, details=details)

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
        details = {**job.details, "seed": ticket.seed, "shots": ticket.shots, "circuit_checksum": circuit.checksum}
        return msgspec.structs.replace(job, counts=counts, details=details)

    async def cancel(self, job_id: str, around: JobContext) -> Job:
        """Nothing runs that could be stopped; this worker reports the job as cancelled from now on."""
        job = await self.status(job_id, around)
        if job.state.is_over:
            return job
        self._cancelled.add(job_id)
        return msgspec.structs.replace(job, state=JobState.CANCELLED)

    async def _counts(self, circuit: Circuit, ticket: _Ticket) -> dict[str, int]:
        """The counts of a circuit. Raises TooLargeError with the reason if it cannot be simulated."""
        if ticket.by_aer:
            _check_aer()
            call = {"circuit": msgspec.to_builtins(circuit), "shots": ticket.shots, "seed": ticket.seed}
            details = await self._aer.ask(**call)
            if "error" in details:
                raise TooLargeError(details["error"])
            return dict(details["counts"])
        # Gates times amplitudes is the work. A long simulation runs in a thread, to keep the event loop free; a short
        # one is over sooner than a thread starts.
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
        raise ToolError(
            UNAVAILABLE, 'this job needs Qiskit Aer, which is not here: pip install "noetl-engine[quantum]"'
        )


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
        raise ToolError(JOB, "this job does not name a circuit") from None


# State vectors: exact simulation of small circuits. A measurement in the middle splits the run into one branch for each
# outcome.
MAX_QUBITS = 16
MAX_BRANCHES = 256
_NOTHING = 1e-15


class TooLargeError(Exception):
    """The circuit is too large for this simulator."""


class _Branch(msgspec.Struct):
    """One branch of a run: its probability, its state, and the bits measured so far."""

    weight: float
    state: list[complex]
    bits: dict[int, int]


def counts_of(circuit: Circuit, shots: int, seed: int) -> dict[str, int]:
    """The number of each outcome in so many shots. The same seed gives the same counts (QNT-05)."""
    likely = probabilities(circuit)
    outcomes = sorted(likely)
    bounds = list(accumulate(likely[one] for one in outcomes))
    random = Random(seed)  # noqa: S311  repeatable is what it has to be
    drawn = Counter(min(bisect(bounds, random.random() * bounds[-1]), len(outcomes) - 1) for _ in range(shots))
    return {outcomes[index]: number for index, number in sorted(drawn.items())}


def probabilities(circuit: Circuit) -> dict[str, float]:
    """Every outcome with its probability; bit 0 is the last character."""
    if circuit.qubits > MAX_QUBITS:
        raise TooLargeError(f"the simulator takes up to {MAX_QUBITS} qubits, and this circuit has {circuit.qubits}")
    state: list[complex] = [0j] * (1 << circuit.qubits)
    state[0] = 1 + 0j
    branches = [_Branch(1.0, state, {})]
    last: dict[int, int] = {}  # qubits that are only read from here on, with their bits
    for index, operation in enumerate(circuit.operations):
        # A last measurement needs no branch: its outcome is read from the final amplitudes.
        if operation.name == MEASURE and not _is_used_later(circuit, index):
            assert operation.bit is not None
            last[operation.qubits[0]] = operation.bit
        elif operation.name in (MEASURE, RESET):
            branches = [part for branch in branches for part in _split(branch, operation)]
            if len(branches) > MAX_BRANCHES:
                raise TooLargeError(f"more than {MAX_BRANCHES} outcomes of measurements in the middle of the circuit")
        else:
            for branch in branches:
                apply(branch.state, operation)
    return _outcomes(branches, last, circuit.bits)


def _is_used_later(circuit: Circuit, index: int) -> bool:
    """Whether a later operation uses the measured qubit or its bit."""
    operation = circuit.operations[index]
    return any(
        operation.qubits[0] in later.qubits or (later.bit is not None and later.bit == operation.bit)
        for later in circuit.operations[index + 1 :]
    )


def apply(state: list[complex], operation: Operation) -> None:
    """Apply one gate, in place."""
    gate = GATES[operation.name]
    if gate.swaps:
        *controls, one, other = operation.qubits
        for pair in ((one, other), (other, one), (one, other)):
            _turn(state, (*controls, pair[0]), pair[1], (0, 1, 1, 0))
        return
    *controls, target = operation.qubits
    _turn(state, tuple(controls), target, gate.make(*operation.angles))


def _turn(
    state: list[complex], controls: tuple[int, ...], target: int, matrix: tuple[complex, complex, complex, complex]
) -> None:
    a, b, c, d = matrix
    bit, mask = 1 << target, sum(1 << control for control in controls)
    for low in range(len(state)):
        if low & bit or low & mask != mask:
            continue
        high = low | bit
        zero, one = state[low], state[high]
        state[low], state[high] = a * zero + b * one, c * zero + d * one


def _split(branch: _Branch, operation: Operation) -> list[_Branch]:
    qubit = 1 << operation.qubits[0]
    parts = []
    for value in (0, 1):
        state = [one if bool(index & qubit) == bool(value) else 0j for index, one in enumerate(branch.state)]
        weight = sum(abs(one) ** 2 for one in state)
        if weight < _NOTHING:
            continue
        norm = weight**0.5
        part = _Branch(branch.weight * weight, [one / norm for one in state], dict(branch.bits))
        if operation.bit is not None:
            part.bits[operation.bit] = value
        elif value:  # reset: the qubit is 0 now
            _turn(part.state, (), operation.qubits[0], (0, 1, 1, 0))
        parts.append(part)
    return parts


def _outcomes(branches: list[_Branch], last: dict[int, int], bits: int) -> dict[str, float]:
    likely: dict[str, float] = {}
    for branch in branches:
        for index, one in enumerate(branch.state):
            weight = abs(one) ** 2 * branch.weight
            if weight < _NOTHING:
                continue
            values = {**branch.bits, **{bit: index >> qubit & 1 for qubit, bit in last.items()}}
            outcome = "".join(str(values.get(bit, 0)) for bit in reversed(range(bits)))
            likely[outcome] = likely.get(outcome, 0.0) + weight
    return likely
