"""Qiskit Aer, where it is installed: the simulator's engine for what a plain state vector is too slow for."""

from __future__ import annotations

from threading import Lock
from typing import Any

from noetl.tools.quantum.circuits import MEASURE, RESET, Circuit

_ALONE = Lock()  # two threads at once in Qiskit, or in importing it, can bring the whole process down


def versions() -> dict[str, Any]:
    from importlib.metadata import version

    return {"qiskit": version("qiskit"), "qiskit-aer": version("qiskit-aer")}


def counts_by_aer(circuit: Circuit, shots: int, seed: int) -> dict[str, int]:
    """Gates have the same names and the same order of angles and qubits in Qiskit as here."""
    with _ALONE:
        return _counted(circuit, shots, seed)


def _counted(circuit: Circuit, shots: int, seed: int) -> dict[str, int]:
    from qiskit import QuantumCircuit, transpile  # type: ignore[import-not-found]  # of the extra `quantum`
    from qiskit_aer import AerSimulator  # type: ignore[import-not-found]

    made = QuantumCircuit(circuit.qubits, circuit.bits)
    for operation in circuit.operations:
        if operation.name == MEASURE:
            made.measure(operation.qubits[0], operation.bit)
        elif operation.name == RESET:
            made.reset(operation.qubits[0])
        else:
            getattr(made, operation.name)(*operation.angles, *operation.qubits)
    simulator = AerSimulator(seed_simulator=seed)
    counted = simulator.run(transpile(made, simulator), shots=shots).result().get_counts()
    return {outcome.replace(" ", ""): int(number) for outcome, number in sorted(counted.items())}
