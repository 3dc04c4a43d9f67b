"""Circuits: gates on numbered qubits, and measurements into numbered bits, written as a list of gates or as OpenQASM.
The module also defines the gates."""

from __future__ import annotations

from cmath import exp
from collections.abc import Callable, Mapping, Sequence
from math import cos, pi, sin, sqrt
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.base.ids import derived

INVALID = "quantum.circuit"
MEASURE, RESET, BARRIER = "measure", "reset", "barrier"
MAX_OPERATIONS = 100_000
MAX_QUBITS = 1_000  # of any circuit; each backend has its own limit
_ANGLES = ("theta", "phi", "lambda")
Matrix = tuple[complex, complex, complex, complex]  # row by row
_HALF = 1 / sqrt(2)


class Operation(msgspec.Struct, frozen=True):
    """A gate, a measurement of one qubit into `bit`, or a reset. Controls come first among the qubits."""

    name: str
    qubits: tuple[int, ...]
    angles: tuple[float, ...] = ()
    bit: int | None = None


class Circuit(msgspec.Struct, frozen=True):
    qubits: int
    bits: int
    operations: tuple[Operation, ...]

    @property
    def checksum(self) -> str:
        """A checksum of the effect of the circuit: it is the same however the circuit was written (QNT-05)."""
        return derived(msgspec.json.encode(self).decode())


def circuit_of(written: Any, parameters: Mapping[str, Any]) -> Circuit:
    """The circuit that a task names. Raises ToolError `quantum.circuit`, which says what is wrong with it."""
    if isinstance(written, str):
        from noetl.tools.quantum.qasm import parsed  # most circuits are lists

        circuit = parsed(written, numbers_of(parameters))
    elif isinstance(written, list):
        circuit = _from_gates(written, numbers_of(parameters))
    else:
        raise invalid("a circuit is OpenQASM text or a list of gates, and this is neither")
    if not circuit.qubits:
        raise invalid("the circuit has no qubits")
    return circuit if circuit.bits else _with_measurements(circuit)


def invalid(message: str) -> ToolError:
    return ToolError(INVALID, message)


def numbers_of(parameters: Mapping[str, Any]) -> dict[str, float]:
    for name, value in parameters.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid(f'parameter "{name}" must be a number, this is {value!r}')
    return {name: float(value) for name, value in parameters.items()}


def checked(name: str, qubits: Sequence[int], angles: Sequence[float], where: str) -> Operation:
    """One gate, checked. Raises ToolError `quantum.circuit` if it is unknown or used wrongly."""
    found = canonical_name(name)
    if found is None:
        raise invalid(f'{where}: there is no gate "{name}"; there are {", ".join(sorted(GATES))}')
    gate = GATES[found]
    if len(qubits) != gate.qubits:
        raise invalid(f"{where}: {name} takes {gate.qubits} qubits, and this has {len(qubits)}")
    if len(set(qubits)) != len(qubits):
        raise invalid(f"{where}: {name} names the same qubit twice")
    if len(angles) != gate.angles:
        raise invalid(f"{where}: {name} takes {gate.angles} angles, and this has {len(angles)}")
    return Operation(found, tuple(qubits), tuple(angles))


def _with_measurements(circuit: Circuit) -> Circuit:
    """The circuit with a measurement of each qubit at its end, for a circuit that measures nothing."""
    last = tuple(Operation(MEASURE, (qubit,), bit=qubit) for qubit in range(circuit.qubits))
    return Circuit(circuit.qubits, circuit.qubits, (*circuit.operations, *last))


def _from_gates(written: list[Any], parameters: Mapping[str, float]) -> Circuit:
    if len(written) > MAX_OPERATIONS:
        raise invalid(f"a circuit has at most {MAX_OPERATIONS} operations, and this has {len(written)}")
    operations = [one for index, item in enumerate(written) for one in _operations(item, f"gate {index}", parameters)]
    qubits = 1 + max((qubit for one in operations for qubit in one.qubits), default=-1)
    bits = 1 + max((one.bit for one in operations if one.bit is not None), default=-1)
    return Circuit(qubits, bits, tuple(one for one in operations if one.name != BARRIER))


def _operations(item: Any, where: str, parameters: Mapping[str, float]) -> list[Operation]:
    if not isinstance(item, dict) or not isinstance(item.get("gate"), str):
        raise invalid(f"{where}: a gate is a mapping with at least gate and target")
    name, targets = item["gate"], _qubits(item, "target", where)
    if name == BARRIER:
        return []
    if not targets:
        raise invalid(f'{where}: "{name}" has no target')
    if name == MEASURE:
        bits = _qubits(item, "bit", where) or targets
        if len(bits) != len(targets):
            raise invalid(f"{where}: as many bits as targets are needed")
        return [Operation(MEASURE, (qubit,), bit=bit) for qubit, bit in zip(targets, bits, strict=True)]
    if name == RESET:
        return [Operation(RESET, (qubit,)) for qubit in targets]
    angles = [_number(item[key], where, parameters) for key in _ANGLES if key in item]
    return [checked(name, (*_qubits(item, "control", where), *targets), angles, where)]


def _qubits(item: Mapping[str, Any], key: str, where: str) -> list[int]:
    value = item.get(key, item.get(f"{key}s"))
    values = value if isinstance(value, list) else [] if value is None else [value]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < MAX_QUBITS:
            raise invalid(f"{where}: {key} must be a number from 0 to {MAX_QUBITS - 1}, this is {one!r}")
    return values


def _number(value: Any, where: str, parameters: Mapping[str, float]) -> float:
    if isinstance(value, str) and value in parameters:
        return parameters[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(f"{where}: an angle is a number or the name of a parameter, this is {value!r}")
    return float(value)


# Gates: the effect of each on one qubit, and how many qubits control it. Names are those of OpenQASM's own library.


def _u(theta: float, phi: float, lam: float) -> Matrix:
    c, s = cos(theta / 2), sin(theta / 2)
    return (c, -exp(1j * lam) * s, exp(1j * phi) * s, exp(1j * (phi + lam)) * c)


def _rz(theta: float) -> Matrix:
    return (exp(-0.5j * theta), 0, 0, exp(0.5j * theta))


class QuantumGate(msgspec.Struct, frozen=True):
    """`make` returns the matrix for the last of its qubits, from so many angles; the other qubits are controls.
    `swaps`: the gate swaps its last two qubits instead."""

    controls: int
    angles: int
    make: Callable[..., Matrix]
    swaps: bool = False

    @property
    def qubits(self) -> int:
        return self.controls + (2 if self.swaps else 1)


_X: Matrix = (0, 1, 1, 0)
_SX: Matrix = (0.5 + 0.5j, 0.5 - 0.5j, 0.5 - 0.5j, 0.5 + 0.5j)
_FIXED: dict[str, Matrix] = {
    "id": (1, 0, 0, 1),
    "x": _X,
    "y": (0, -1j, 1j, 0),
    "z": (1, 0, 0, -1),
    "h": (_HALF, _HALF, _HALF, -_HALF),
    "s": (1, 0, 0, 1j),
    "sdg": (1, 0, 0, -1j),
    "t": (1, 0, 0, exp(0.25j * pi)),
    "tdg": (1, 0, 0, exp(-0.25j * pi)),
    "sx": _SX,
    "sxdg": tuple(complex(one).conjugate() for one in _SX),  # type: ignore[dict-item]
}
_TURNED: dict[str, tuple[int, Callable[..., Matrix]]] = {
    "rx": (1, lambda a: _u(a, -pi / 2, pi / 2)),
    "ry": (1, lambda a: _u(a, 0, 0)),
    "rz": (1, _rz),
    "p": (1, lambda a: (1, 0, 0, exp(1j * a))),
    "u2": (2, lambda a, b: _u(pi / 2, a, b)),
    "u": (3, _u),
}


def _fixed_gate(name: str) -> Callable[..., Matrix]:
    return lambda: _FIXED[name]


def _table() -> dict[str, QuantumGate]:
    gates = {name: QuantumGate(0, 0, _fixed_gate(name)) for name in _FIXED}
    gates |= {name: QuantumGate(0, angles, make) for name, (angles, make) in _TURNED.items()}
    for name in ("x", "y", "z", "h", "s", "sx"):
        gates[f"c{name}"] = QuantumGate(1, 0, _fixed_gate(name))
    for name in ("rx", "ry", "rz", "p", "u"):
        gates[f"c{name}"] = QuantumGate(1, *_TURNED[name])
    gates |= {"ccx": QuantumGate(2, 0, _fixed_gate("x")), "ccz": QuantumGate(2, 0, _fixed_gate("z"))}
    gates |= {
        "swap": QuantumGate(0, 0, _fixed_gate("x"), swaps=True),
        "cswap": QuantumGate(1, 0, _fixed_gate("x"), swaps=True),
    }
    return gates


GATES = _table()
# Other spellings of the same gates.
ALIASES = {
    "cnot": "cx",
    "toffoli": "ccx",
    "fredkin": "cswap",
    "u1": "p",
    "phase": "p",
    "u3": "u",
    "cu1": "cp",
    "cphase": "cp",
    "cu3": "cu",
    "i": "id",
    "iden": "id",
}


def canonical_name(name: str) -> str | None:
    """The name of a gate in this module; `U` and `CX` are OpenQASM's names for two of them."""
    lower = name.lower()
    lower = ALIASES.get(lower, lower)
    return lower if lower in GATES else None
