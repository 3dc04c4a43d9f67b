"""The child process in which Qiskit runs. Everything happens in its main thread, which is the only one that Qiskit can
be imported in for good.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.child_pipes import refusal, serve_calls
from noetl.tools.quantum.jobs import JOB

Answering = Callable[[dict[str, Any]], Any]


def serve(engine: str) -> None:
    warnings.simplefilter("ignore")  # nobody would read them
    imported: list[Answering] = []

    def answer_to(call: dict[str, Any]) -> bytes:
        try:
            if not imported:
                imported.append(_answering(engine))
            return msgspec.json.encode({"answer": imported[0](call)})
        except ToolError as problem:
            return refusal(problem.kind, problem.message, retryable=problem.retryable)
        except Exception as problem:
            return refusal(JOB, f"{type(problem).__name__}: {problem}")

    serve_calls(answer_to)


def _answering(engine: str) -> Answering:
    """The engine, imported when it is first asked: that it cannot be is an answer too."""
    if engine == "aer":
        from noetl.tools.quantum.aer import counted

        return counted
    from noetl.tools.quantum.ibm_runtime import Runtime

    return Runtime().answer
