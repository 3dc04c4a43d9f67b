"""The child process of the `convert` tool: one conversion for each call, as JSON over pipes."""

from __future__ import annotations

from typing import Any

import duckdb
import msgspec

from noetl.base.errors import ToolError
from noetl.tools.child_pipes import serve_calls
from noetl.tools.convert.conversion import converted
from noetl.tools.convert.request import ConvertRequest, problem_of


def serve() -> None:
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    request = msgspec.convert(call, ConvertRequest)
    try:
        return msgspec.json.encode({"result": converted(request)})
    except ToolError as problem:
        return _refused(problem)
    except (duckdb.Error, MemoryError, OSError, UnicodeError) as problem:
        return _refused(problem_of(problem, request))
    except Exception as problem:
        return _refused(ToolError("convert.error", f"{type(problem).__name__}: {problem}"))


def _refused(problem: ToolError) -> bytes:
    return msgspec.json.encode({"error": {"kind": problem.kind, "message": problem.message, **problem.details}})
