"""Tables: rows of a task as a Parquet file in the results store; the event log has only a small reference (RES-05).

A task writes its rows to a file, chunk by chunk. The file is masked, measured and stored. A later task that gets the
reference reads the file. Rows never pass through an event. DuckDB reads and writes Parquet in a child process that can
open only the folder of the file, so no kind needs a Parquet library.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.events.outcomes import PARQUET, Reference
from noetl.store.results.files import is_checksum
from noetl.templates.sql.statements import Statement, quoted, quoted_name
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import ToolContext
from noetl.tools.sql.answers import SqlAnswer
from noetl.tools.table_sql import (
    DECIMAL,
    TypedColumn,
    copy_to,
    csv_scan,
    csv_type,
    decimal_type,
    digits_sql,
    has_secret,
    masked_sql,
    may_have_secret,
    scan,
    search_sql,
    value_sql,
)

DUCKDB = Program(module="noetl.tools.duckdb.child", name="DuckDB", error="duckdb.error")
# Memory of DuckDB in the child. Larger intermediate data goes to the disk, in the folder of the task.
MEMORY_BYTES = 512 << 20
# With more, DuckDB reads ahead while it waits to write rows in their order. Its memory then grew with the file, past
# its limit: 481 MiB for 4 million rows of a CSV, and 184 MiB with one thread, which also took less processor time.
_THREADS = 1


class TableShape(msgspec.Struct, frozen=True):
    """The number of rows and the columns of a table."""

    row_count: int
    columns: tuple[TypedColumn, ...]


class TableFiles:
    """Operations on files of tables. `owner` is the execution: a child process never serves another one."""

    def __init__(self) -> None:
        self._children = ChildPool(DUCKDB)

    async def sql(self, owner: str, folder: Path, *statements: str) -> list[SqlAnswer]:
        """The answers of our own statements on files in `folder`. Data that does not fit into memory spills there."""
        if find_spec("duckdb") is None:
            message = 'rows as a table need DuckDB: pip install "noetl-engine[duckdb]"'
            raise ToolError("tool.unknown_kind", message)
        call: dict[str, Any] = {
            "statements": [(text, []) for text in statements],
            "transaction": False,
            "database": None,
            "folders": [str(folder)],
            "spill": str(folder / "spill"),
            "memory_bytes": MEMORY_BYTES,
            "threads": _THREADS,
            "max_rows": None,
            "attach": None,
            "is_ours": True,
        }
        async with self._children.child(owner) as child:
            answer = await child.call(call)
        if "answers" not in answer:
            raise ToolError(answer["kind"], answer["message"], retryable=answer["retryable"])
        return msgspec.convert(answer["answers"], list[SqlAnswer])

    async def shape(self, owner: str, file: Path) -> TableShape:
        """The shape of a Parquet file. Raises ToolError for any other file."""
        described, counted = await self.sql(
            owner,
            file.parent,
            f"DESCRIBE SELECT * FROM {scan(file)}",  # noqa: S608  paths of ours, in quotes
            f"SELECT num_rows AS n FROM parquet_file_metadata({quoted(str(file))})",  # noqa: S608
        )
        columns = tuple(TypedColumn(row["column_name"], row["column_type"]) for row in described.rows)
        return TableShape(int(counted.rows[0]["n"]), columns)

    async def rows(self, owner: str, file: Path, *, offset: int, limit: int) -> SqlAnswer:
        (found,) = await self.sql(
            owner,
            file.parent,
            f"SELECT * FROM {scan(file)} LIMIT {int(limit)} OFFSET {int(offset)}",  # noqa: S608
        )
        return found

    async def from_csv(self, owner: str, csv: Path, columns: Sequence[TypedColumn], into: Path) -> None:
        """Convert CSV in the form that our tools write: no header, NULL as `\\N`, texts in quotes."""
        if not columns:
            raise ToolError("sql.input", "the query has no columns, so its rows cannot be a table")
        source = csv_scan(csv, [TypedColumn(column.name, csv_type(column.type)) for column in columns])
        exact = await self._decimals(owner, csv.parent, source, columns)
        values = ", ".join(f"{value_sql(column, exact)} AS {quoted_name(column.name)}" for column in columns)
        await self.sql(owner, csv.parent, copy_to(into, f"SELECT {values} FROM {source}"))  # noqa: S608

    async def _decimals(self, owner: str, folder: Path, source: str, columns: Sequence[TypedColumn]) -> dict[str, str]:
        """The exact type of each decimal column: databases do not report the digits of computed columns."""
        names = [column.name for column in columns if column.type == DECIMAL]
        if not names:
            return {}
        parts = [digits_sql(quoted_name(name), number) for number, name in enumerate(names)]
        (found,) = await self.sql(owner, folder, f"SELECT {', '.join(parts)} FROM {source}")  # noqa: S608
        row = found.rows[0]
        return {name: decimal_type(row, number) for number, name in enumerate(names)}

    async def mask(self, owner: str, file: Path, forms: Sequence[str]) -> bool:
        """Replace secrets in the values and column names of a file. Returns whether there were any."""
        forms = [form for form in forms if "\x00" not in form]
        if not forms:
            return False
        shape = await self.shape(owner, file)
        found = await self._columns_with(owner, file, shape, forms)
        if not found and not any(has_secret(column.name, forms) for column in shape.columns):
            return False
        values = [
            f"{masked_sql(column, forms) if column in found else quoted_name(column.name)} AS "
            f"{quoted_name(f'column_{number + 1}' if has_secret(column.name, forms) else column.name)}"
            for number, column in enumerate(shape.columns)
        ]
        part = file.with_name(file.name + ".masked")
        await self.sql(owner, file.parent, copy_to(part, f"SELECT {', '.join(values)} FROM {scan(file)}"))  # noqa: S608
        part.replace(file)
        return True

    async def _columns_with(self, owner: str, file: Path, shape: TableShape, forms: Sequence[str]) -> list[TypedColumn]:
        """The columns with a secret: one pass over columns of text, and over numbers if a secret is a number."""
        searched = [column for column in shape.columns if may_have_secret(column.type, forms)]
        if not searched:
            return []
        tests = [f"bool_or({search_sql(column, forms)}) AS c{number}" for number, column in enumerate(searched)]
        (answer,) = await self.sql(owner, file.parent, f"SELECT {', '.join(tests)} FROM {scan(file)}")  # noqa: S608
        return [column for number, column in enumerate(searched) if answer.rows[0][f"c{number}"]]

    def release(self, owner: str) -> None:
        self._children.release(owner)

    async def close(self) -> None:
        await self._children.close()


MAX_BYTES = 32 << 30  # the largest table
_FORMATS = ("inline", "parquet")


def wants_table(spec: Mapping[str, Any]) -> bool:
    """Whether the rows of a task become a table (`spec.rows: parquet`)."""
    written = spec.get("rows")
    if written not in (None, *_FORMATS):
        raise ToolError("sql.input", f'spec.rows "{written}" is not known: write {" or ".join(_FORMATS)}')
    return bool(written == "parquet")


@contextmanager
def table_folder() -> Iterator[Path]:
    """A temporary folder for the files of one task."""
    folder = tempfile.mkdtemp(prefix="noetl-table-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def store_table(file: Path, context: ToolContext, files: TableFiles) -> dict[str, Any]:
    """Store a file of rows. Returns the result of its task: the reference, the row count and the columns."""
    if context.results.keep_table is None:
        raise ToolError("result.table", "there is no results store here to keep a table in")
    if file.stat().st_size > MAX_BYTES:
        raise ToolError("result.too_large", f"the table has more than {MAX_BYTES >> 30} GiB")
    await files.mask(context.task_run.execution_id, file, context.secret_forms())
    shape = await files.shape(context.task_run.execution_id, file)
    reference = await context.results.keep_table(file)
    columns = list(msgspec.to_builtins(shape.columns))
    ref = {**msgspec.to_builtins(reference), "row_count": shape.row_count, "columns": columns}
    return {"ref": ref, "row_count": shape.row_count, "columns": [column.name for column in shape.columns]}


def table_in(value: Any) -> Reference | None:
    """The table that a value refers to: a reference, or the result of the task that made it; None if neither."""
    fields = value.get("ref", value) if isinstance(value, Mapping) else None
    if not isinstance(fields, Mapping) or fields.get("media_type") != PARQUET:
        return None
    checksum, size = fields.get("checksum"), fields.get("size")
    if not isinstance(checksum, str) or not is_checksum(checksum) or not isinstance(size, int):
        raise ToolError("artifact.input", "this is not the reference of a table: pass {{ step.ref }} unchanged")
    text = {name: str(fields.get(name, "")) for name in ("store", "key")}
    return Reference(**text, checksum=checksum, size=size, media_type=PARQUET)


async def fetched_table(value: Any, context: ToolContext, into: Path) -> Path:
    """The file of the table that `value` refers to. Raises ToolError if it refers to none."""
    reference = table_in(value)
    if reference is None:
        raise ToolError("artifact.input", "a table is the {{ step.ref }} of a task with spec: {rows: parquet}")
    if context.results.fetch_table is None:
        raise ToolError("result.missing", "there is no results store here that has the table")
    await context.results.fetch_table(reference, into)
    return into


async def fetched_tables(written: Any, context: ToolContext, folder: Path) -> dict[str, Path]:
    """The files of the input `tables`, by the names that the task gives them."""
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        raise ToolError("artifact.input", '"tables" is a mapping of a name to the {{ step.ref }} of a table')
    return {
        str(name): await fetched_table(value, context, folder / f"table-{number}.parquet")
        for number, (name, value) in enumerate(written.items())
    }


# Loads: `transfer` asks the tools of databases to load a file of rows into a table. A playbook cannot contain one: it
# is a Python object among the inputs, and YAML never produces it.


class RowLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of `file` into `table` (a name as SQL), in one transaction with the statements `then`.

    The file is CSV without a header and NULL as `\\N` for PostgreSQL, lines of JSON for others. `binary` are columns of
    bytes, in hexadecimal digits. `key`: the columns that identify existing rows, which are updated. `empties`: all
    existing rows are deleted first."""

    table: str
    columns: tuple[str, ...]
    file: Path
    # Columns of bytes, in hexadecimal digits: neither CSV nor JSON can hold bytes.
    binary: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    empties: bool = False
    then: tuple[Statement, ...] = ()
