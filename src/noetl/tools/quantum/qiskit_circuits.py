"""Circuits as Qiskit's own. Imports Qiskit, so only the child process imports this."""

from __future__ import annotations

from math import pi
from typing import Any

from qiskit import QuantumCircuit  # type: ignore[import-not-found,import-untyped,unused-ignore]  # of the extra `quantum`

from noetl.tools.quantum.circuits import MEASURE, RESET, Circuit, Operation


def qiskit_circuit(circuit: Circuit) -> Any:
    """The same circuit. Gates have the same names and the same order of angles and qubits there, but for two."""
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
