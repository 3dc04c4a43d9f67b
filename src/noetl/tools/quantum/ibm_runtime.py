"""IBM's quantum computers, through qiskit-ibm-runtime. Runs in the child process, since its calls block.

An account is opened once and kept as long as the process. A job is tagged with the task run that submitted it. A task
that is repeated after a crash finds its job again by the tag, and does not pay for a second one (reliability.md
§3.4).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import qiskit  # type: ignore[import-not-found,import-untyped,unused-ignore]  # of the extra `quantum-ibm`
import qiskit_ibm_runtime  # type: ignore[import-not-found,import-untyped,unused-ignore]
from qiskit.providers.exceptions import QiskitBackendNotFoundError  # type: ignore[import-not-found,import-untyped,unused-ignore]
from qiskit.transpiler import generate_preset_pass_manager  # type: ignore[import-not-found,import-untyped,unused-ignore]
from qiskit_ibm_runtime import QiskitRuntimeService
from qiskit_ibm_runtime.exceptions import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
    IBMAccountError,
    IBMError,
    IBMInputValueError,
    IBMNotAuthorizedError,
    RuntimeInvalidStateError,
    RuntimeJobNotFound,
)
from qiskit_ibm_runtime.executor_sampler import Sampler  # type: ignore[import-not-found,import-untyped,unused-ignore]
from requests.exceptions import RequestException

from noetl.base.errors import ToolError
from noetl.base.ids import derived
from noetl.tools.quantum.circuits import Circuit
from noetl.tools.quantum.jobs import JOB, UNAVAILABLE, JobState
from noetl.tools.quantum.qiskit_circuits import qiskit_circuit

_SEEDS = 1 << 31
_OPTIMIZATION_LEVEL = 1
_REFUSALS = (QiskitBackendNotFoundError, IBMAccountError, IBMInputValueError, IBMNotAuthorizedError)


class Runtime:
    """IBM's service. `open_service` opens an account by its fields."""

    def __init__(self, open_service: Any = QiskitRuntimeService) -> None:
        self._open = open_service
        self._services: dict[bytes, Any] = {}
        self._local: dict[str, Any] = {}  # jobs of the package's local mode, which exist on no server

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._answer(call)
        except RuntimeJobNotFound as problem:
            raise ToolError(JOB, problem.message) from problem
        except (QiskitBackendNotFoundError, IBMError, RequestException) as problem:
            away = _unreachable(problem)
            is_refusal = isinstance(problem, _REFUSALS) and away is None
            message = f"ibm: {getattr(problem, 'message', problem)}"
            if away is not None:
                message += f" ({type(away).__name__})"
            raise ToolError(UNAVAILABLE, message, retryable=not is_refusal) from problem

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        service = self._service(call["account"])
        if call["op"] == "submit":
            return _job_row(self._find_job(service, call["key"]) or self._submit_job(service, call))
        job = self._job(service, call["job_id"])
        match call["op"]:
            case "cancel":
                return _cancelled(job)
            case "results":
                return _with_counts(job)
            case _:
                return _job_row(job)

    def _service(self, account: dict[str, Any]) -> Any:
        key = msgspec.json.encode(account, order="sorted")
        if key not in self._services:
            self._services[key] = self._open(**account)
        return self._services[key]

    def _find_job(self, service: Any, key: str) -> Any:
        """The job that this task run has submitted before, if it can still succeed."""
        if service.is_local:
            return None
        # The newest job: an earlier one may have failed before this task run asked again.
        jobs = service.jobs(job_tags=[_tag(key)], limit=1)
        return next((job for job in jobs if _state(job) not in (JobState.ERROR, JobState.CANCELLED)), None)

    def _submit_job(self, service: Any, call: dict[str, Any]) -> Any:
        circuit = msgspec.convert(call["circuit"], Circuit)
        name = call["backend"]
        backend = service.backend(name) if name else service.least_busy(min_num_qubits=circuit.qubits)
        passes = generate_preset_pass_manager(
            optimization_level=call["hints"].get("optimization_level", _OPTIMIZATION_LEVEL),
            backend=backend,
            seed_transpiler=call["seed"] % _SEEDS,
        )
        sampler = Sampler(mode=backend)
        sampler.options.environment.job_tags = [_tag(call["key"])]
        job = sampler.run([passes.run(qiskit_circuit(circuit))], shots=call["shots"])
        if service.is_local:
            self._local[job.job_id()] = job
        return job

    def _job(self, service: Any, job_id: str) -> Any:
        if not service.is_local:
            return service.job(job_id)
        if job_id not in self._local:
            raise ToolError(JOB, f'"{job_id}" is no job of this process: local jobs end with it')
        return self._local[job_id]


def _unreachable(problem: BaseException | None) -> OSError | None:
    """The network error behind an error: if the network fails, the package calls an account invalid."""
    while problem is not None and not isinstance(problem, OSError):
        problem = problem.__cause__
    return problem


def _tag(key: str) -> str:
    return f"noetl-{derived(key)}"


def _state(job: Any) -> JobState:
    """The state of a job. States before the queue count as queued."""
    status = job.status()
    name = str(getattr(status, "name", status))  # a text of the service's, an enumeration of local jobs
    return JobState(name) if name in JobState.__members__ else JobState.QUEUED


def _job_row(job: Any) -> dict[str, Any]:
    state, backend = _state(job), job.backend()
    details = {
        "job_id": job.job_id(),
        "state": state.value,
        "backend": backend.name if backend is not None else None,
        "versions": {"qiskit": qiskit.__version__, "qiskit-ibm-runtime": qiskit_ibm_runtime.__version__},
    }
    if state is JobState.ERROR:
        details["error"] = job.error_message() or "the provider does not say why"
    return details


def _cancelled(job: Any) -> dict[str, Any]:
    if not _state(job).is_over:
        with suppress(RuntimeInvalidStateError):  # it had ended just before
            job.cancel()
    return _job_row(job)


def _with_counts(job: Any) -> dict[str, Any]:
    details = _job_row(job)
    if details["state"] == JobState.DONE:
        counts = job.result()[0].join_data().get_counts()
        details["counts"] = {outcome: int(number) for outcome, number in sorted(counts.items())}
    return details
