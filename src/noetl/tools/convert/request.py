"""Requests: what the tool asks its child process to convert. Everything is a file by now. Also the problems that are
answered."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import msgspec

from noetl.base.errors import ToolError

MAX_BYTES = 10 << 30
MEMORY_BYTES = 1 << 30
THREADS = 2
DATA = "convert.data"
_LINE = re.compile(r"CSV Error on Line: (\d+)")
_ORIGINAL = re.compile(
    r"Original Line:.*?(?=\n[A-Z][\w ]+:|\Z)", re.DOTALL
)  # cut by DuckDB, so that a secret is not known
_ADVICE = re.compile(r"\n(?:Possible fixes|Possible Solution|LINE \d|\s*file ?=)", re.IGNORECASE)


class TableFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with a table. `name` is what people know it by."""

    path: str
    name: str
    format: str
    compression: str = "none"
    encoding: str = "utf-8"
    delimiter: str | None = None
    record: str | None = None
    sheet: str | int | None = None
    header: bool | list[str] = True
    skip: int = 0
    types: str = "detect"
    null: str | None = None
    lists: list[str] = []
    cell_errors: str = "fail"
    root: str = "rows"


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the target, the source's that it comes from, and the type that the task gave it."""

    name: str
    source: str
    type: str | None = None


class ConvertRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One conversion. Without `target` the rows are the answer. `folder` is for files of its own."""

    source: TableFile
    target: TableFile | None = None
    columns: list[Column] | None = None
    folder: str
    max_bytes: int = MAX_BYTES
    max_rows: int | None = None
    memory_bytes: int = MEMORY_BYTES
    threads: int = THREADS


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `rows` are there where there is no target."""

    row_count: int
    columns: list[dict[str, str]]
    rows: list[dict[str, Any]] | None = None
    size: int | None = None
    checksum: str | None = None


# Problems of a conversion, as error outcomes: what was found where, under the names that the task uses.


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
