"""Problems of a conversion, as error outcomes: what was found where, under the names that the task uses."""

from __future__ import annotations

import re

import duckdb

from noetl.base.errors import ToolError
from noetl.tools.convert.request import ConvertRequest

DATA = "convert.data"
_LINE = re.compile(r"CSV Error on Line: (\d+)")
_ORIGINAL = re.compile(
    r"Original Line:.*?(?=\n[A-Z][\w ]+:|\Z)", re.DOTALL
)  # cut by DuckDB, so that a secret is not known
_ADVICE = re.compile(r"\n(?:Possible fixes|Possible Solution|LINE \d|\s*file ?=)", re.IGNORECASE)


def problem_of(problem: Exception, request: ConvertRequest) -> ToolError:
    """The error outcome for what a library raised."""
    if isinstance(problem, MemoryError | duckdb.OutOfMemoryException):
        return ToolError(
            "convert.error",
            f"{request.source.name} needs more memory than {request.memory_bytes} bytes: raise spec.resources.memory",
        )
    text = _named(str(problem), request)
    if isinstance(problem, UnicodeError):
        return ToolError(DATA, f"{request.source.name}: {text}")
    if isinstance(problem, OSError):
        return ToolError("convert.error", f"{request.source.name}: {problem.strerror or text}")
    if found := _LINE.search(text):
        what = _ORIGINAL.sub("", text[found.end() :]).strip().replace("\n", "; ")
        return ToolError(DATA, f"{request.source.name}, line {found[1]}: {what}", line=int(found[1]))
    plain = " ".join(_ADVICE.split(text)[0].split())
    return ToolError(DATA, f"{request.source.name}: {plain}")


def _named(text: str, request: ConvertRequest) -> str:
    """Without the places of files of our own."""
    text = text.replace(request.source.path, request.source.name).replace(request.folder, "…")
    return text if request.target is None else text.replace(request.target.path, request.target.name)
