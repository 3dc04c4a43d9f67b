"""Tables of a conversion: the files that the child converts, and the view between them, whose columns each have a type.
Also the errors of a conversion."""

from __future__ import annotations

import re
from collections.abc import Callable
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
    """A file with a table. `name` is its name in messages."""

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
    """A column of the target, the column of the source that it comes from, and the type that the task gave it."""

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
    """The result of a conversion. `rows` are set if there is no target."""

    row_count: int
    columns: list[dict[str, str]]
    rows: list[dict[str, Any]] | None = None
    size: int | None = None
    checksum: str | None = None


# Problems of a conversion, as error outcomes: the mistake and its place, under the names that the task uses.


def problem_of(problem: Exception, request: ConvertRequest) -> ToolError:
    """The error outcome for an exception of a library."""
    if isinstance(problem, MemoryError | duckdb.OutOfMemoryException):
        return ToolError(
            "convert.error",
            f"{request.source.name} needs more memory than {request.memory_bytes} bytes: raise spec.resources.memory",
        )
    text = _without_own_paths(str(problem), request)
    if isinstance(problem, UnicodeError):
        return ToolError(DATA, f"{request.source.name}: {text}")
    if isinstance(problem, OSError):
        return ToolError("convert.error", f"{request.source.name}: {problem.strerror or text}")
    if found := _LINE.search(text):
        what = _ORIGINAL.sub("", text[found.end() :]).strip().replace("\n", "; ")
        return ToolError(DATA, f"{request.source.name}, line {found[1]}: {what}", line=int(found[1]))
    plain = " ".join(_ADVICE.split(text)[0].split())
    return ToolError(DATA, f"{request.source.name}: {plain}")


def _without_own_paths(text: str, request: ConvertRequest) -> str:
    """The message without the paths of temporary files."""
    text = text.replace(request.source.path, request.source.name).replace(request.folder, "…")
    return text if request.target is None else text.replace(request.target.path, request.target.name)


class TableColumn(msgspec.Struct, frozen=True, kw_only=True):
    """`value` is SQL over the view; `is_cast`: the column has another type in the view."""

    name: str
    type: str
    value: str
    is_cast: bool = True

    @property
    def typed(self) -> str:
        return f"CAST({self.value} AS {self.type})" if self.is_cast else self.value

    @property
    def is_nested(self) -> bool:
        return self.type.endswith("]") or self.type.startswith(("STRUCT", "MAP", "UNION"))


class Table(msgspec.Struct, frozen=True, kw_only=True):
    view: str
    columns: list[TableColumn]

    def select(self, written: Callable[[TableColumn], str] = lambda column: column.typed) -> str:
        """The query that gives the table, each column as `written` says."""
        made = ", ".join(f"{written(column)} AS {named(column.name)}" for column in self.columns)
        return f"SELECT {made} FROM {self.view}"  # noqa: S608  names are quoted


def named(name: str) -> str:
    """A quoted name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def distinct_names(names: list[str]) -> list[str]:
    """Names that differ even without regard to case."""
    taken: set[str] = set()
    # The last number of each name: all columns of a file may have the same name.
    numbers: dict[str, int] = {}
    made = []
    for name in names:
        own, number = name, numbers.get(name.lower(), 0)
        while own.lower() in taken:
            number += 1
            own = f"{name}_{number}"
        numbers[name.lower()] = number
        taken.add(own.lower())
        made.append(own)
    return made


def misfit(connection: Any, table: Table, name: str) -> ToolError | None:
    """The first value that does not fit the type of its column, with its row."""
    for column in table.columns:
        if not column.is_cast:
            continue
        query = (
            f"SELECT n, v FROM (SELECT row_number() OVER () AS n, {column.value} AS v FROM {table.view}) "  # noqa: S608
            f"WHERE v IS NOT NULL AND TRY_CAST(v AS {column.type}) IS NULL LIMIT 1"
        )
        try:
            found = connection.execute(query).fetchone()
        except duckdb.Error:
            continue
        if found is not None:
            return ToolError(
                "convert.data",
                f'{name}, row {found[0]}, column "{column.name}": "{found[1]}" is not of type {column.type}',
                row=int(found[0]),
                column=column.name,
            )
    return None
