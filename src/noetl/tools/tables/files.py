"""Files of tables, as DuckDB reads and writes them in a child process that can open nothing but their folder."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import quoted, quoted_name
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.sql.answers import SqlAnswer
from noetl.tools.tables.table_sql import (
    DECIMAL,
    TypedColumn,
    copy_to,
    csv_scan,
    decimal_type,
    digits_of,
    is_held,
    is_searched,
    masked,
    read_as,
    scan,
    search,
    value_of,
)

DUCKDB = Program(module="noetl.tools.duckdb.child", name="DuckDB", error="duckdb.error")
# Of DuckDB in the child; what needs more goes to the disk, in the folder of the task.
MEMORY_BYTES = 512 << 20
_THREADS = 2


class TableShape(msgspec.Struct, frozen=True):
    row_count: int
    columns: tuple[TypedColumn, ...]


class TableFiles:
    """`owner` of a call is the execution: a child is never used for another one."""

    def __init__(self) -> None:
        self._children = ChildPool(DUCKDB)

    async def sql(self, owner: str, folder: Path, *statements: str) -> list[SqlAnswer]:
        """What statements of our own answer, on files in `folder`; what does not fit into memory goes there too."""
        if find_spec("duckdb") is None:
            message = "rows as a table need DuckDB: install noetl-engine[duckdb]"
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
        """How many rows a file has, and of which columns. ToolError for what is no Parquet."""
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
        """A table of CSV as our tools write it: no header, NULL as `\\N`, texts in quotes."""
        if not columns:
            raise ToolError("sql.input", "the query gives no columns, so its rows are no table")
        source = csv_scan(csv, [TypedColumn(one.name, read_as(one.type)) for one in columns])
        exact = await self._decimals(owner, csv.parent, source, columns)
        values = ", ".join(f"{value_of(one, exact)} AS {quoted_name(one.name)}" for one in columns)
        await self.sql(owner, csv.parent, copy_to(into, f"SELECT {values} FROM {source}"))  # noqa: S608

    async def _decimals(self, owner: str, folder: Path, source: str, columns: Sequence[TypedColumn]) -> dict[str, str]:
        """The exact type of each column of decimals: databases do not say how many digits their queries give."""
        names = [one.name for one in columns if one.type == DECIMAL]
        if not names:
            return {}
        parts = [digits_of(quoted_name(name), number) for number, name in enumerate(names)]
        (found,) = await self.sql(owner, folder, f"SELECT {', '.join(parts)} FROM {source}")  # noqa: S608
        row = found.rows[0]
        return {name: decimal_type(row, number) for number, name in enumerate(names)}

    async def mask(self, owner: str, file: Path, forms: Sequence[str]) -> bool:
        """Replace secrets in the values of a file, and in its column names; whether there were any."""
        forms = [form for form in forms if "\x00" not in form]
        if not forms:
            return False
        shape = await self.shape(owner, file)
        found = await self._columns_with(owner, file, shape, forms)
        if not found and not any(is_held(one.name, forms) for one in shape.columns):
            return False
        values = [
            f"{masked(one, forms) if one in found else quoted_name(one.name)} AS "
            f"{quoted_name(f'column_{number + 1}' if is_held(one.name, forms) else one.name)}"
            for number, one in enumerate(shape.columns)
        ]
        part = file.with_name(file.name + ".masked")
        await self.sql(owner, file.parent, copy_to(part, f"SELECT {', '.join(values)} FROM {scan(file)}"))  # noqa: S608
        part.replace(file)
        return True

    async def _columns_with(self, owner: str, file: Path, shape: TableShape, forms: Sequence[str]) -> list[TypedColumn]:
        """The columns that hold a secret: one pass over those of text, and over numbers where a secret is one."""
        searched = [one for one in shape.columns if is_searched(one.type, forms)]
        if not searched:
            return []
        tests = [f"bool_or({search(one, forms)}) AS c{number}" for number, one in enumerate(searched)]
        (answer,) = await self.sql(owner, file.parent, f"SELECT {', '.join(tests)} FROM {scan(file)}")  # noqa: S608
        return [one for number, one in enumerate(searched) if answer.rows[0][f"c{number}"]]

    def release(self, owner: str) -> None:
        self._children.release(owner)

    async def close(self) -> None:
        await self._children.close()
