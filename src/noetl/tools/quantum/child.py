"""The child process in which Qiskit runs. All calls run in its main thread: Qiskit keeps working only in the thread
that imported it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import msgspec

from noetl.base.addresses.policy import AddressPolicy
from noetl.base.addresses.proxies import outbound_proxies
from noetl.base.errors import ToolError
from noetl.tools.child_pipes import refusal, serve_calls
from noetl.tools.guarded_sockets import GuardedSockets
from noetl.tools.quantum.jobs import JOB

Answering = Callable[[dict[str, Any]], Any]
_sockets = GuardedSockets(AddressPolicy())


def serve(engine: str) -> None:
    warnings.simplefilter("ignore")  # no process would read them
    _sockets.install()
    imported: list[Answering] = []

    def answer_to(call: dict[str, Any]) -> bytes:
        try:
            if not imported:
                # In the thread that serves calls, which is the main thread: Qiskit has to be imported there.
                imported.append(_engine_answering(engine))
            _hold_to_policy(call.pop("policy", None))
            return msgspec.json.encode({"answer": imported[0](call)})
        except Exception as problem:
            if _sockets.refusal is not None:  # the package's own exception
                return refusal("tool.not_allowed", _sockets.refusal)
            if isinstance(problem, ToolError):
                return refusal(problem.kind, problem.message, retryable=problem.retryable)
            return refusal(JOB, f"{type(problem).__name__}: {problem}")

    serve_calls(answer_to)


def _hold_to_policy(written: dict[str, Any] | None) -> None:
    """Apply the address policy of this call to its connections. The proxy of the environment is the operator's."""
    _sockets.refusal = None
    if written is None:
        return
    policy = msgspec.convert(written, AddressPolicy)
    proxy = outbound_proxies(None, (), os.environ).https
    _sockets.policy = msgspec.structs.replace(policy, allow=(*policy.allow, proxy.host)) if proxy else policy


def _engine_answering(engine: str) -> Answering:
    """The engine, imported on first use; a failed import becomes an error answer."""
    if engine == "aer":
        from noetl.tools.quantum.qiskit_circuits import counted

        return counted
    from noetl.tools.quantum.ibm_runtime import Runtime

    return Runtime().answer
