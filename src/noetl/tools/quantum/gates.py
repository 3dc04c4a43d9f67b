"""Gates: what each does to one qubit, and how many qubits control it. Names are those of OpenQASM's own library."""

from __future__ import annotations

from cmath import exp
from collections.abc import Callable
from math import cos, pi, sin, sqrt

import msgspec

Matrix = tuple[complex, complex, complex, complex]  # row by row

_HALF = 1 / sqrt(2)


def _u(theta: float, phi: float, lam: float) -> Matrix:
    c, s = cos(theta / 2), sin(theta / 2)
    return (c, -exp(1j * lam) * s, exp(1j * phi) * s, exp(1j * (phi + lam)) * c)


def _rz(theta: float) -> Matrix:
    return (exp(-0.5j * theta), 0, 0, exp(0.5j * theta))


class QuantumGate(msgspec.Struct, frozen=True):
    """`make` gives the matrix on the last of its qubits, from so many angles; the others control it. `swaps`: it
    exchanges its last two qubits instead."""

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


def _fixed(name: str) -> Callable[..., Matrix]:
    return lambda: _FIXED[name]


def _table() -> dict[str, QuantumGate]:
    gates = {name: QuantumGate(0, 0, _fixed(name)) for name in _FIXED}
    gates |= {name: QuantumGate(0, angles, make) for name, (angles, make) in _TURNED.items()}
    for name in ("x", "y", "z", "h", "s", "sx"):
        gates[f"c{name}"] = QuantumGate(1, 0, _fixed(name))
    for name in ("rx", "ry", "rz", "p", "u"):
        gates[f"c{name}"] = QuantumGate(1, *_TURNED[name])
    gates |= {"ccx": QuantumGate(2, 0, _fixed("x")), "ccz": QuantumGate(2, 0, _fixed("z"))}
    gates |= {"swap": QuantumGate(0, 0, _fixed("x"), swaps=True), "cswap": QuantumGate(1, 0, _fixed("x"), swaps=True)}
    return gates


GATES = _table()
# Other words for the same gates.
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
    """The name a gate is known by here; `U` and `CX` are OpenQASM's own words for two of them."""
    lower = name.lower()
    lower = ALIASES.get(lower, lower)
    return lower if lower in GATES else None
