"""`quantum`: jobs on quantum computers and simulators (QNT-01, QNT-02).

The id of a job begins with its provider, so that a later task needs nothing else to query it. Everything that
determines the counts is in the results, and so in the log (QNT-05).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.events.tasks import JobPlaced
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.quantum.circuits import Circuit, circuit_of, numbers_of
from noetl.tools.quantum.jobs import JOB, UNAVAILABLE, Job, JobContext, JobRequest, JobState, Provider
from noetl.tools.quantum.providers import SIMULATOR, Backend, Providers, backends_of, place, stand_ins

SHOTS = 1024
_POLL_S = 0.5
_CANCEL_S = 20.0  # how long a finished task may take to cancel its job
_MOST_SHOTS = 1_000_000


class QuantumTool(Tool):
    def __init__(self, providers: Providers | None = None) -> None:
        self._providers = providers or Providers()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        match inputs.get("op") or "submit":
            case "submit":
                return ToolResult(result=(await self._submit(inputs, context))[1])
            case "run":
                return await self._run(inputs, context)
            case "status" | "results" | "cancel" as op:
                return await self._ask(op, inputs, context)
            case op:
                raise ToolError("tool.exception", f'op is "{op}"; it may be submit, status, results, cancel, run')

    async def close(self) -> None:
        """Releases nothing here: jobs belong to their providers."""
        await self._providers.close()

    async def _submit(self, inputs: Mapping[str, Any], context: ToolContext) -> tuple[str, dict[str, Any]]:
        parameters = inputs.get("parameters") or {}
        circuit, shots = circuit_of(inputs.get("circuit"), parameters), _shots(inputs.get("shots"))
        backend = _chosen_backend(inputs, context, circuit, shots)
        asked_for = backend.provider if backend is not None else inputs.get("provider") or SIMULATOR
        name = _stand_ins(context).get(asked_for, asked_for)
        hints = dict(context.policy.get("hints") or {})
        request = JobRequest(
            circuit=circuit,
            source=inputs.get("circuit"),
            shots=shots,
            seed=_seed(inputs.get("seed"), context),
            key=context.task_run.idempotency_key,
            backend=backend.name if backend is not None else inputs.get("backend"),
            parameters=numbers_of(parameters),
            hints=hints,
            queue_s=_length("queue_s", context, backend.queue_s if backend is not None else 0.0),
            run_s=_length("run_s", context, backend.run_s if backend is not None else 0.0),
        )
        provider, around = self._providers.provider(name), _surroundings(inputs, context)
        job = await _submitted_job(provider, request, around)
        _note(f"{name}:{job.job_id}", job, provider, around, context)
        return f"{name}:{job.job_id}", {
            "job_id": f"{name}:{job.job_id}",
            "state": job.state.value,
            "provider": asked_for,
            "backend": request.backend or name,
            "shots": shots,
            "seed": request.seed,
            "circuit_checksum": circuit.checksum,
            "qubits": circuit.qubits,
            **({} if asked_for == name else {"run_by": name}),
            **job.details,
        }

    async def _run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        job_id, submitted = await self._submit(inputs, context)
        provider, own_id = self._provider_of(job_id)
        around = _surroundings(inputs, context)
        try:
            while not (await provider.status(own_id, around)).state.is_over:
                await asyncio.sleep(_POLL_S)
            job = await provider.results(own_id, around)
        except asyncio.CancelledError:
            context.live.cleanups.pop(job_id, None)
            await _cancel_job(provider, own_id, around)  # no attempt will ask for its result
            raise
        _note(job_id, job, provider, around, context)
        return ToolResult(result={**submitted, **_results(job_id, job)})

    async def _ask(self, op: str, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        job_id = inputs.get("job_id")
        if not isinstance(job_id, str) or not job_id:
            raise ToolError(JOB, f"op: {op} needs the job_id that a submit gave")
        provider, own_id = self._provider_of(job_id, inputs.get("provider"), context)
        around = _surroundings(inputs, context)
        match op:
            case "status":
                job = await provider.status(own_id, around)
            case "cancel":
                job = await provider.cancel(own_id, around)
            case _:
                job = await provider.results(own_id, around)
        _note(job_id, job, provider, around, context)
        return ToolResult(result=_results(job_id, job) if op == "results" else _job_row(job_id, job))

    def _provider_of(
        self, job_id: str, asked_for: str | None = None, context: ToolContext | None = None
    ) -> tuple[Provider, str]:
        """The provider of a job, and the provider's id of it. For an id that did not come from a task, the inputs must
        name the provider."""
        name, sign, own_id = job_id.partition(":")
        if not sign:
            name, own_id = asked_for or "", job_id
            name = _stand_ins(context).get(name, name) if context is not None else name
        if not name:
            raise ToolError(JOB, f'"{job_id}" does not name its provider: set provider')
        return self._providers.provider(name), own_id


async def _submitted_job(provider: Provider, request: JobRequest, around: JobContext) -> Job:
    """Submit the job. A cancellation waits for the answer: without an id, a job that costs money could not be
    cancelled."""
    submitting = asyncio.ensure_future(provider.submit(request, around))
    try:
        # Shielded: a provider that was interrupted may have accepted the job all the same.
        return await asyncio.shield(submitting)
    except asyncio.CancelledError:
        with suppress(ToolError, TimeoutError):
            async with asyncio.timeout(_CANCEL_S):
                await provider.cancel((await submitting).job_id, around)
        raise


async def _cancel_job(provider: Provider, own_id: str, around: JobContext) -> None:
    with suppress(ToolError, TimeoutError):
        async with asyncio.timeout(_CANCEL_S):
            await provider.cancel(own_id, around)


def _note(job_id: str, job: Job, provider: Provider, around: JobContext, context: ToolContext) -> None:
    """Register the job for cancellation with its execution, until it is over."""
    if job.state.is_over:
        context.live.cleanups.pop(job_id, None)
    else:
        context.live.cleanups[job_id] = partial(provider.cancel, job.job_id, around)


def _chosen_backend(inputs: Mapping[str, Any], context: ToolContext, circuit: Circuit, shots: int) -> Backend | None:
    """The backend that the task names, else the best one of the playbook's list (QNT-06)."""
    wanted = inputs.get("backend")
    if wanted is not None:
        return next((one for one in backends_of(context.policy) if one.name == wanted), None)
    placed = place(context.policy, qubits=circuit.qubits, shots=shots, provider=inputs.get("provider"))
    if placed is None:
        return None
    context.live.remark(
        JobPlaced,
        backend=placed.backend.name,
        provider=placed.backend.provider,
        prefer=placed.prefer,
        considered=tuple(msgspec.to_builtins(one) for one in placed.considered),
    )
    return placed.backend


def _surroundings(inputs: Mapping[str, Any], context: ToolContext) -> JobContext:
    credential: Mapping[str, Any] | None = None
    auth = inputs.get("auth")
    if isinstance(auth, dict):
        credential = auth
    elif auth is not None:
        if context.resolve is None:
            raise ToolError(UNAVAILABLE, f'the credential "{auth}" cannot be looked up here')
        credential = context.resolve(str(auth))
    return JobContext(
        now=context.now,
        credential=credential,
        keep=context.results.keep,
        load=context.results.load,
        addresses=context.addresses,
    )


def _stand_ins(context: ToolContext) -> dict[str, str]:
    try:
        return stand_ins(context.permissions.provider_stand_ins)
    except ValueError as problem:
        raise ToolError(UNAVAILABLE, str(problem)) from None


def _shots(written: Any) -> int:
    if written is None:
        return SHOTS
    try:
        shots = int(written) if not isinstance(written, bool) else 0
    except (TypeError, ValueError, OverflowError):
        shots = 0
    if not 1 <= shots <= _MOST_SHOTS or (isinstance(written, float) and shots != written):
        raise ToolError("quantum.circuit", f"shots must be a whole number from 1 to {_MOST_SHOTS}, this is {written!r}")
    return shots


def _length(name: str, context: ToolContext, otherwise: float) -> float:
    """The duration of a simulated job: from the spec of the task, else from its backend."""
    written = context.spec.get(name)
    try:
        return seconds(written) if written is not None else otherwise
    except ValueError as problem:
        raise ToolError("tool.exception", f"spec.{name}: {problem}") from None


def _seed(written: Any, context: ToolContext) -> int:
    """The seed of the inputs, or one derived from the task run, so that a repeated attempt asks for the same job."""
    if written is None:
        from noetl.base.ids import derived

        return int(derived("seed", context.task_run.idempotency_key)[:8], 16)
    try:
        return int(written)
    except (TypeError, ValueError):
        raise ToolError("quantum.circuit", f"seed must be a whole number, this is {written!r}") from None


def _job_row(job_id: str, job: Job) -> dict[str, Any]:
    error = {"error": job.error} if job.error is not None else {}
    return {"job_id": job_id, "state": job.state.value, **error, **job.details}


def _results(job_id: str, job: Job) -> dict[str, Any]:
    """The counts of a job that is done. Raises ToolError `quantum.job` for any other; if the job may still be done
    later, the error is retryable."""
    if job.state is not JobState.DONE or job.counts is None:
        why = job.error or f"it is {job.state.value}"
        waiting = not job.state.is_over
        raise ToolError(JOB, f"the job has no results: {why}", retryable=waiting, state=job.state.value, job_id=job_id)
    return {**_job_row(job_id, job), "counts": job.counts, "shots": sum(job.counts.values())}
