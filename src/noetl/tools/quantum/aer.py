"""Qiskit Aer: counts of circuits that a plain state vector is too small or too slow for. Runs in the child process."""

from __future__ import annotations

from typing import Any

import msgspec
from qiskit import transpile  # type: ignore[import-not-found,import-untyped,unused-ignore]  # of the extra `quantum`
from qiskit.exceptions import QiskitError  # type: ignore[import-not-found,import-untyped,unused-ignore]
from qiskit_aer import AerSimulator  # type: ignore[import-not-found,import-untyped,unused-ignore]

from noetl.tools.quantum.circuits import Circuit
from noetl.tools.quantum.qiskit_circuits import qiskit_circuit

_SEEDS = 1 << 31  # as many as Aer tells apart


def counted(call: dict[str, Any]) -> dict[str, Any]:
    """`counts` of a circuit in so many shots, the same for the same seed; `error` says why there are none."""
    circuit, seed = msgspec.convert(call["circuit"], Circuit), call["seed"] % _SEEDS
    simulator = AerSimulator(seed_simulator=seed)
    if circuit.qubits > simulator.num_qubits:
        most = f"with the memory of this machine, Aer takes up to {simulator.num_qubits} qubits"
        return {"error": f"{most}, and this circuit has {circuit.qubits}"}
    try:
        ready = transpile(qiskit_circuit(circuit), simulator, seed_transpiler=seed)
        counts = simulator.run(ready, shots=call["shots"]).result().get_counts()
    except QiskitError as problem:  # no memory is left after all, or whatever else Aer finds wrong
        return {"error": problem.message or type(problem).__name__}
    return {"counts": {outcome: int(number) for outcome, number in sorted(counts.items())}}
