"""Providers by name: the built-in ones, and those of plug-ins (entry points of the group `noetl.quantum`). Also
which backend a job without one is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.quantum.ibm import Ibm
from noetl.tools.quantum.jobs import UNAVAILABLE, Provider
from noetl.tools.quantum.process import Engine
from noetl.tools.quantum.simulator import Simulator

SIMULATOR = "simulator"
GROUP = "noetl.quantum"
UNPLACED = "quantum.placement"
PREFERENCES = ("cost", "queue", "fidelity")


class Providers:
    """One instance of each. `more` adds some, for tests and embedders."""

    def __init__(self, more: Mapping[str, Provider] | None = None) -> None:
        self._engines = aer, ibm = Engine("aer"), Engine("ibm")
        self._made: dict[str, Provider] = {
            SIMULATOR: Simulator(aer),
            "aer": Simulator(aer, always_aer=True),
            "ibm": Ibm(ibm),
            **(more or {}),
        }

    def provider(self, name: str) -> Provider:
        """ToolError `quantum.provider_unavailable` says what there is, and the way out."""
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._load(name)
        return made

    async def close(self) -> None:
        """End what was started for them; jobs go on where they are."""
        for engine in self._engines:
            await engine.close()

    def _load(self, name: str) -> Provider:
        from importlib.metadata import entry_points  # slow to import, and rarely needed

        found = next((entry for entry in entry_points(group=GROUP) if entry.name == name), None)
        if found is None:
            raise ToolError(
                UNAVAILABLE,
                f'there is no quantum provider "{name}" here: install a plug-in that brings it, '
                f"or let the simulator stand in for it with provider_stand_ins = {name}={SIMULATOR}",
            )
        try:
            made: Provider = found.load()()
        except ImportError as problem:
            raise ToolError(UNAVAILABLE, f'the quantum provider "{name}" lacks a library: {problem}') from problem
        return made


def stand_ins(written: tuple[str, ...]) -> dict[str, str]:
    """`ibm=simulator` as a mapping. ValueError for anything else."""
    found = {}
    for one in written:
        name, sign, stand_in = one.partition("=")
        if not sign or not name.strip() or not stand_in.strip():
            raise ValueError(f'provider_stand_ins: "{one}" is not of the form ibm=simulator')
        found[name.strip()] = stand_in.strip()
    return found


# Placement: which backend a job without one is given, by the playbook's own hints (QNT-06).


class Backend(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    provider: str = "simulator"
    qubits: int | None = None
    cost_per_shot: float = 0.0
    queue_s: float = 0.0
    run_s: float = 0.0
    fidelity: float = 1.0


class Considered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A backend as it was weighed: what the job would cost there, and why it was out of the question."""

    name: str
    cost: float
    queue_s: float
    refused: str | None = None


class QuantumPlacement(msgspec.Struct, frozen=True):
    backend: Backend
    prefer: str
    considered: tuple[Considered, ...]


def backends_of(policy: Mapping[str, Any]) -> tuple[Backend, ...]:
    try:
        return msgspec.convert(policy.get("backends") or (), tuple[Backend, ...], strict=False)
    except msgspec.ValidationError as problem:
        raise ToolError(UNPLACED, f"executor.spec.policy.quantum.backends: {problem}") from None


def place(policy: Mapping[str, Any], *, qubits: int, shots: int, provider: str | None) -> QuantumPlacement | None:
    """The best admissible backend; None where the playbook names none. ToolError `quantum.placement` when none is."""
    backends = backends_of(policy)
    if not backends:
        return None
    wishes = policy.get("placement") or {}
    prefer = wishes.get("prefer", "cost")
    if prefer not in PREFERENCES:
        raise ToolError(UNPLACED, f'placement.prefer is "{prefer}"; it may be {", ".join(PREFERENCES)}')
    needed = max(qubits, int(wishes.get("min_qubits") or 0))
    weighed = [
        Considered(
            name=one.name,
            cost=round(one.cost_per_shot * shots, 9),
            queue_s=one.queue_s,
            refused=_refused(one, needed, shots, wishes.get("max_cost"), provider),
        )
        for one in backends
    ]
    fit = [one for one, told in zip(backends, weighed, strict=True) if told.refused is None]
    if not fit:
        reasons = "; ".join(f"{one.name}: {one.refused}" for one in weighed)
        raise ToolError(UNPLACED, f"no backend takes this job ({reasons})")
    return QuantumPlacement(min(fit, key=lambda one: _rank(one, prefer)), prefer, tuple(weighed))


def _refused(backend: Backend, qubits: int, shots: int, max_cost: Any, provider: str | None) -> str | None:
    if provider is not None and backend.provider != provider:
        return f"it belongs to {backend.provider}, and {provider} is asked for"
    if backend.qubits is not None and backend.qubits < qubits:
        return f"it has {backend.qubits} qubits, and {qubits} are needed"
    cost = backend.cost_per_shot * shots
    if max_cost is not None and cost > float(max_cost):
        return f"it costs {cost:g}, and max_cost is {float(max_cost):g}"
    return None


def _rank(backend: Backend, prefer: str) -> float:
    match prefer:
        case "queue":
            return backend.queue_s
        case "fidelity":
            return -backend.fidelity
        case _:
            return backend.cost_per_shot
