"""Circuits as Qiskit's own, and their counts by Qiskit Aer, for circuits that are too large or too slow for the
built-in simulator. Imports Qiskit, so only the child process imports this module."""

from __future__ import annotations

from math import pi
from typing import Any

import msgspec
from qiskit import QuantumCircuit, transpile  # type: ignore[import-not-found,import-untyped,unused-ignore]  # of the extra `quantum`
from qiskit.exceptions import QiskitError  # type: ignore[import-not-found,import-untyped,unused-ignore]

from noetl.tools.quantum.circuits import MEASURE, RESET, Circuit, Operation

_SEEDS = 1 << 31  # the number of seeds that Aer distinguishes


def qiskit_circuit(circuit: Circuit) -> Any:
    """The same circuit for Qiskit. All gates but two have the same name and the same order of angles and qubits
    there."""
    built = QuantumCircuit(circuit.qubits, circuit.bits)
    for operation in circuit.operations:
        match operation.name:
            case name if name == MEASURE:
                built.measure(operation.qubits[0], operation.bit)
            case name if name == RESET:
                built.reset(operation.qubits[0])
            case _:
                name, angles = _qiskit_gate(operation)
                getattr(built, name)(*angles, *operation.qubits)
    return built


def _qiskit_gate(operation: Operation) -> tuple[str, tuple[float, ...]]:
    match operation.name:
        case "u2":
            return "u", (pi / 2, *operation.angles)
        case "cu":
            return "cu", (*operation.angles, 0.0)  # its fourth angle is a phase that ours does not have
        case name:
            return name, operation.angles


def counted(call: dict[str, Any]) -> dict[str, Any]:
    """The `counts` of a circuit in so many shots, the same for the same seed; or `error` with the reason."""
    # Imported here: it belongs to the extra `quantum`, and jobs of IBM do not need it.
    from qiskit_aer import AerSimulator  # type: ignore[import-not-found,import-untyped,unused-ignore]

    circuit, seed = msgspec.convert(call["circuit"], Circuit), call["seed"] % _SEEDS
    simulator = AerSimulator(seed_simulator=seed)
    if circuit.qubits > simulator.num_qubits:
        most = f"with the memory of this machine, Aer takes up to {simulator.num_qubits} qubits"
        return {"error": f"{most}, and this circuit has {circuit.qubits}"}
    try:
        ready = transpile(qiskit_circuit(circuit), simulator, seed_transpiler=seed)
        counts = simulator.run(ready, shots=call["shots"]).result().get_counts()
    except QiskitError as problem:  # the memory did not suffice after all, or another error of Aer
        return {"error": problem.message or type(problem).__name__}
    return {"counts": {outcome: int(number) for outcome, number in sorted(counts.items())}}
