"""Providers by name: the built-in ones, and those of plug-ins (entry points of the group `noetl.quantum`). Also
which backend a job without one is given, and `ibm`.

`Ibm` is a thin adapter: `ibm_runtime` speaks to IBM's computers, in a process of its own. The token comes from the
credential that a task names, and goes to that process over a pipe: neither its arguments nor its environment have it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.addresses.policy import AddressGuard, BlockedError, UnresolvedError
from noetl.base.addresses.proxies import outbound_proxies
from noetl.base.errors import ToolError
from noetl.tools.quantum.jobs import UNAVAILABLE, Job, JobContext, JobRequest, JobState, Provider
from noetl.tools.quantum.process import Engine
from noetl.tools.quantum.simulator import Simulator

SIMULATOR = "simulator"
GROUP = "noetl.quantum"
UNPLACED = "quantum.placement"
PREFERENCES = ("cost", "queue", "fidelity")


class Providers:
    """One instance of each provider. `more` adds providers, for tests and embedders."""

    def __init__(self, more: Mapping[str, Provider] | None = None) -> None:
        self._engines = aer, ibm = Engine("aer"), Engine("ibm")
        self._made: dict[str, Provider] = {
            SIMULATOR: Simulator(aer),
            "aer": Simulator(aer, always_aer=True),
            "ibm": Ibm(ibm),
            **(more or {}),
        }

    def provider(self, name: str) -> Provider:
        """A provider by name. Raises ToolError `quantum.provider_unavailable`, which lists the providers, with a
        hint."""
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._load(name)
        return made

    async def close(self) -> None:
        """End the processes that were started for providers; jobs continue on the side of the provider."""
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
    """`ibm=simulator` as a mapping. Raises ValueError for anything else."""
    found = {}
    for one in written:
        name, sign, stand_in = one.partition("=")
        if not sign or not name.strip() or not stand_in.strip():
            raise ValueError(f'provider_stand_ins: "{one}" is not of the form ibm=simulator')
        found[name.strip()] = stand_in.strip()
    return found


# Placement: the backend of a job that names none, chosen by the hints of the playbook (QNT-06).


class Backend(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    provider: str = "simulator"
    qubits: int | None = None
    cost_per_shot: float = 0.0
    queue_s: float = 0.0
    run_s: float = 0.0
    fidelity: float = 1.0


class Considered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A backend considered for a job: the cost there, and the reason if it was excluded."""

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
    """The best admissible backend; None if the playbook lists none. Raises ToolError `quantum.placement` if none is
    admissible."""
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
    fit = [one for one, details in zip(backends, weighed, strict=True) if details.refused is None]
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


PACKAGE, EXTRA = "qiskit-ibm-runtime", "quantum-ibm"
_ACCOUNT = ("channel", "instance", "url", "region")  # further fields for owner and place of the jobs
_DETAILS = ("backend", "versions")  # further data for the log (QNT-05)
_LOCAL = "local"  # the package's own testing mode, which has no account


class Ibm:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def submit(self, request: JobRequest, around: JobContext) -> Job:
        return await self._run_job(
            "submit",
            around,
            circuit=msgspec.to_builtins(request.circuit),
            shots=request.shots,
            seed=request.seed,
            key=request.key,
            backend=request.backend,
            hints=request.hints,
        )

    async def status(self, job_id: str, around: JobContext) -> Job:
        return await self._run_job("status", around, job_id=job_id)

    async def results(self, job_id: str, around: JobContext) -> Job:
        return await self._run_job("results", around, job_id=job_id)

    async def cancel(self, job_id: str, around: JobContext) -> Job:
        return await self._run_job("cancel", around, job_id=job_id)

    async def _run_job(self, op: str, around: JobContext, **more: Any) -> Job:
        if find_spec("qiskit_ibm_runtime") is None:
            raise ToolError(
                UNAVAILABLE,
                f'the quantum provider "ibm" needs the package {PACKAGE}: pip install "noetl-engine[{EXTRA}]", '
                "or let the simulator stand in for it with provider_stand_ins = ibm=simulator",
            )
        account = account_of(around.credential)
        await _check_host(account.get("url"), around.addresses)
        policy = msgspec.to_builtins(around.addresses.policy)
        details = await self._engine.ask(op=op, account=account, policy=policy, **more)
        return Job(
            job_id=details["job_id"],
            state=JobState(details["state"]),
            counts=details.get("counts"),
            error=details.get("error"),
            details={name: details[name] for name in _DETAILS if details.get(name)},
        )


async def _check_host(url: Any, addresses: AddressGuard) -> None:
    """Check the host before anything is started. Raises BlockedError for a service that may not be reached. The policy
    also applies to the connections of the process; if they go through a proxy, this check is the only one."""
    if not isinstance(url, str) or not (host := urlsplit(url).hostname):
        return
    is_by_proxy = outbound_proxies(None, (), os.environ).proxy_for("https", host, None) is not None
    try:
        with suppress(UnresolvedError):  # the package reports it itself
            await (addresses.allow_by_proxy if is_by_proxy else addresses.addresses)(host, 443)
    except BlockedError as problem:
        raise BlockedError(f"IBM's service {host} is blocked: {problem.message}") from None


def account_of(credential: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields for opening an account. Raises ToolError `quantum.provider_unavailable`, which names the missing
    ones."""
    fields = credential or {}
    account = {name: fields[name] for name in _ACCOUNT if fields.get(name)}
    if account.get("channel") == _LOCAL:
        return {"channel": _LOCAL}
    token = fields.get("token") or fields.get("api_key")
    if not token:
        raise ToolError(
            UNAVAILABLE,
            'the quantum provider "ibm" needs a credential with a token on every task: auth: its name in the keychain',
        )
    return {**account, "token": token}
