"""`ibm`: jobs on IBM's quantum computers. A thin adapter: `ibm_runtime` speaks to them, in a process of its own.

The token comes from the credential that a task names. It goes to that process over a pipe: neither its arguments nor
its environment have it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.addresses.guard import AddressGuard, BlockedError, UnresolvedError
from noetl.base.addresses.proxies import outbound_proxies
from noetl.base.errors import ToolError
from noetl.tools.quantum.jobs import UNAVAILABLE, Job, JobContext, JobRequest, JobState
from noetl.tools.quantum.process import Engine

PACKAGE, EXTRA = "qiskit-ibm-runtime", "quantum-ibm"
_ACCOUNT = ("channel", "instance", "url", "region")  # what besides the token may say whose jobs they are, and where
_TOLD = ("backend", "versions")  # what goes into the log besides (QNT-05)
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
                f'the quantum provider "ibm" needs the package {PACKAGE}: install noetl-engine[{EXTRA}], '
                "or let the simulator stand in for it with provider_stand_ins = ibm=simulator",
            )
        account = account_of(around.credential)
        await _check_host(account.get("url"), around.addresses)
        policy = msgspec.to_builtins(around.addresses.policy)
        told = await self._engine.ask(op=op, account=account, policy=policy, **more)
        return Job(
            job_id=told["job_id"],
            state=JobState(told["state"]),
            counts=told.get("counts"),
            error=told.get("error"),
            told={name: told[name] for name in _TOLD if told.get(name)},
        )


async def _check_host(url: Any, addresses: AddressGuard) -> None:
    """BlockedError for a service that may not be reached, before anything is started. Connections of the process are
    held to the policy themselves; where they go through a proxy, this is all that can be told of the host."""
    if not isinstance(url, str) or not (host := urlsplit(url).hostname):
        return
    is_by_proxy = outbound_proxies(None, (), os.environ).proxy_for("https", host, None) is not None
    try:
        with suppress(UnresolvedError):  # the package tells it in its own words
            await (addresses.allow_by_proxy if is_by_proxy else addresses.addresses)(host, 443)
    except BlockedError as problem:
        raise BlockedError(f"IBM's service {host} is blocked: {problem.message}") from None


def account_of(credential: Mapping[str, Any] | None) -> dict[str, Any]:
    """What an account is opened with. ToolError `quantum.provider_unavailable` says what is missing."""
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
