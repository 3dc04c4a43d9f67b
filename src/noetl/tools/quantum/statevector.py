"""State vectors: small circuits, simulated exactly. A measurement in the middle splits the run into its outcomes."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from itertools import accumulate
from random import Random

import msgspec

from noetl.tools.quantum.circuits import MEASURE, RESET, Circuit, Operation
from noetl.tools.quantum.gates import GATES

MAX_QUBITS = 16
MAX_BRANCHES = 256
_NOTHING = 1e-15


class TooLargeError(Exception):
    """The circuit is more than this simulator takes."""


class _Branch(msgspec.Struct):
    """One course of events: how likely it is, the state, and the bits measured so far."""

    weight: float
    state: list[complex]
    bits: dict[int, int]


def counts_of(circuit: Circuit, shots: int, seed: int) -> dict[str, int]:
    """How often each outcome came in so many shots. The same seed gives the same counts (QNT-05)."""
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
        if operation.name == MEASURE and not _touched(circuit, index):
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


def _touched(circuit: Circuit, index: int) -> bool:
    """Whether something happens to the measured qubit, or to its bit, later on."""
    operation = circuit.operations[index]
    return any(
        operation.qubits[0] in later.qubits or (later.bit is not None and later.bit == operation.bit)
        for later in circuit.operations[index + 1 :]
    )


def apply(state: list[complex], operation: Operation) -> None:
    """One gate, in place."""
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
        elif value:  # reset: whatever it was, it is 0 now
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
