"""From a file of rows to the reference of a stored table, and back (RES-05). Also the loading of such a file into a
table."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.events.outcomes import PARQUET, Reference
from noetl.store.results.files import is_checksum
from noetl.templates.sql.statements import Statement
from noetl.tools.contract import ToolContext
from noetl.tools.tables.files import TableFiles

MAX_BYTES = 32 << 30  # of a table
_FORMATS = ("inline", "parquet")


def wants_table(spec: Mapping[str, Any]) -> bool:
    """Whether the rows of a task are to be a table: `spec.rows: parquet`."""
    written = spec.get("rows")
    if written not in (None, *_FORMATS):
        raise ToolError("sql.input", f'spec.rows "{written}" is not known: write {" or ".join(_FORMATS)}')
    return bool(written == "parquet")


@contextmanager
def table_folder() -> Iterator[Path]:
    """A folder for the files of one task, gone with it."""
    folder = tempfile.mkdtemp(prefix="noetl-table-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def store_table(file: Path, context: ToolContext, files: TableFiles) -> dict[str, Any]:
    """Store a file of rows and return the result of its task: the reference, and what the rows are."""
    if context.keep_table is None:
        raise ToolError("result.table", "there is no results store here to keep a table in")
    if file.stat().st_size > MAX_BYTES:
        raise ToolError("result.too_large", f"the table has more than {MAX_BYTES >> 30} GiB")
    await files.mask(context.execution_id, file, context.secret_forms())
    shape = await files.shape(context.execution_id, file)
    reference = await context.keep_table(file)
    columns = list(msgspec.to_builtins(shape.columns))
    ref = {**msgspec.to_builtins(reference), "row_count": shape.row_count, "columns": columns}
    return {"ref": ref, "row_count": shape.row_count, "columns": [one.name for one in shape.columns]}


def table_in(value: Any) -> Reference | None:
    """The table that a value refers to: its reference, or the result of the task that made it."""
    found = value.get("ref", value) if isinstance(value, Mapping) else None
    if not isinstance(found, Mapping) or found.get("media_type") != PARQUET:
        return None
    checksum, size = found.get("checksum"), found.get("size")
    if not isinstance(checksum, str) or not is_checksum(checksum) or not isinstance(size, int):
        raise ToolError("artifact.input", "this is not the reference of a table: hand on {{ step.ref }} as it is")
    text = {name: str(found.get(name, "")) for name in ("store", "key")}
    return Reference(**text, checksum=checksum, size=size, media_type=PARQUET)


async def fetched_table(value: Any, context: ToolContext, into: Path) -> Path:
    """The file of a table that a task was given. ToolError for anything else."""
    reference = table_in(value)
    if reference is None:
        raise ToolError("artifact.input", "a table is the {{ step.ref }} of a task with spec: {rows: parquet}")
    if context.fetch_table is None:
        raise ToolError("result.missing", "there is no results store here that has the table")
    await context.fetch_table(reference, into)
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


# Loads: a file of rows into a table, as `transfer` asks the tools of databases for it.
#
# No playbook can write one: it is an object of ours among the inputs of a call, and never comes out of YAML.


class RowLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of `file` into `table` (a name as SQL), in one transaction with the statements `then`.

    The file is CSV without a header and NULL as `\\N` for PostgreSQL, lines of JSON for others. `binary` are columns of
    bytes, in hexadecimal digits. `key`: the columns that tell which rows are there already; they are updated.
    `empties`: all rows that were there go first."""

    table: str
    columns: tuple[str, ...]
    file: Path
    # Columns of bytes, in hexadecimal digits: neither CSV nor JSON can hold bytes.
    binary: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    empties: bool = False
    then: tuple[Statement, ...] = ()
