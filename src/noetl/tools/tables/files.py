"""Files of tables, as DuckDB reads and writes them in a child process that can open nothing but their folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.base.redaction import MASK
from noetl.templates.sql.statements import quoted
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.sql.answers import SqlAnswer
from noetl.tools.sql.requests import quoted_name

DUCKDB = Program(module="noetl.tools.duckdb.child", name="DuckDB", error="duckdb.error")
NULL = "\\N"  # in CSV of ours; an empty line would be no row at all
DECIMAL, BYTES = "DECIMAL of any scale", "bytes as \\x and hexadecimal digits"  # kinds of columns beside DuckDB's types
# Of DuckDB in the child; what needs more goes to the disk, in the folder of the task.
MEMORY_BYTES = 512 << 20
# One row as a line of JSON; longer ones are refused by DuckDB's reader.
_LINE_BYTES = 16 << 20
_THREADS = 2
_HEAD = 32  # characters of a secret's form that are looked for first: long ones would make a large pattern
_NESTED = ("STRUCT(", "MAP(", "UNION(")
# Digits of a DECIMAL that is a 64-bit number, and of the widest there is. To read a text as a wide one takes DuckDB
# 4.6 us, as a short one 0.1 us: that was a third of the processor time of a whole transfer, and more.
_SHORT, _LONG = 18, 38
_DIGITS = re.compile(r"[-+.\d]+")


class TypedColumn(msgspec.Struct, frozen=True):
    name: str
    type: str


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
        source = csv_scan(csv, [TypedColumn(one.name, _read_as(one.type)) for one in columns])
        exact = await self._decimals(owner, csv.parent, source, columns)
        values = ", ".join(f"{_value(one, exact)} AS {quoted_name(one.name)}" for one in columns)
        await self.sql(owner, csv.parent, copy_to(into, f"SELECT {values} FROM {source}"))  # noqa: S608

    async def _decimals(self, owner: str, folder: Path, source: str, columns: Sequence[TypedColumn]) -> dict[str, str]:
        """The exact type of each column of decimals: databases do not say how many digits their queries give."""
        names = [one.name for one in columns if one.type == DECIMAL]
        if not names:
            return {}
        parts = [_digits_of(quoted_name(name), number) for number, name in enumerate(names)]
        (found,) = await self.sql(owner, folder, f"SELECT {', '.join(parts)} FROM {source}")  # noqa: S608
        row = found.rows[0]
        return {name: _decimal(row, number) for number, name in enumerate(names)}

    async def mask(self, owner: str, file: Path, forms: Sequence[str]) -> bool:
        """Replace secrets in the values of a file, and in its column names; whether there were any."""
        forms = [form for form in forms if "\x00" not in form]
        if not forms:
            return False
        shape = await self.shape(owner, file)
        found = await self._columns_with(owner, file, shape, forms)
        if not found and not any(_held(one.name, forms) for one in shape.columns):
            return False
        values = [
            f"{_masked(one, forms) if one in found else quoted_name(one.name)} AS "
            f"{quoted_name(f'column_{number + 1}' if _held(one.name, forms) else one.name)}"
            for number, one in enumerate(shape.columns)
        ]
        part = file.with_name(file.name + ".masked")
        await self.sql(owner, file.parent, copy_to(part, f"SELECT {', '.join(values)} FROM {scan(file)}"))  # noqa: S608
        part.replace(file)
        return True

    async def _columns_with(self, owner: str, file: Path, shape: TableShape, forms: Sequence[str]) -> list[TypedColumn]:
        """The columns that hold a secret: one pass over those of text, and over numbers where a secret is one."""
        searched = [one for one in shape.columns if _is_searched(one.type, forms)]
        if not searched:
            return []
        tests = [f"bool_or({_search(one, forms)}) AS c{number}" for number, one in enumerate(searched)]
        (answer,) = await self.sql(owner, file.parent, f"SELECT {', '.join(tests)} FROM {scan(file)}")  # noqa: S608
        return [one for number, one in enumerate(searched) if answer.rows[0][f"c{number}"]]

    def release(self, owner: str) -> None:
        self._children.release(owner)

    async def close(self) -> None:
        await self._children.close()


def scan(file: Path) -> str:
    """The rows of a file in Parquet, in SQL."""
    return f"read_parquet({quoted(str(file))})"


def csv_scan(file: Path, columns: Sequence[TypedColumn]) -> str:
    types = ", ".join(f"{quoted(one.name)}: {quoted(one.type)}" for one in columns)
    return (
        f"read_csv({quoted(str(file))}, header = false, auto_detect = false, delim = ',', quote = '\"', "
        f"escape = '\"', nullstr = {quoted(NULL)}, allow_quoted_nulls = false, strict_mode = true, "
        f"max_line_size = {_LINE_BYTES}, buffer_size = {2 * _LINE_BYTES}, columns = {{{types}}})"
    )


def copy_to(file: Path, query: str) -> str:
    """Rows into Parquet, in groups of a size that is written as soon as it is there."""
    return f"COPY ({query}) TO {quoted(str(file))} (FORMAT parquet, ROW_GROUP_SIZE 100000)"


def rows_of_json(written: Path, file: Path) -> str:
    """Lines of JSON, which Python has written, into Parquet."""
    rows = f"read_json({quoted(str(written))}, format = 'newline_delimited')"
    return copy_to(file, f"SELECT * FROM {rows}")  # noqa: S608  a path of ours


def unique_names(names: Sequence[str]) -> list[str]:
    """Names of columns that are told apart: a query may give two of the same name, a table cannot."""
    made: list[str] = []
    for name in names:
        number, tried = 1, name
        while tried.lower() in {one.lower() for one in made}:
            tried, number = f"{name}_{number}", number + 1
        made.append(tried)
    return made


def _read_as(kind: str) -> str:
    return "VARCHAR" if kind in (DECIMAL, BYTES) else kind


def _value(column: TypedColumn, exact: dict[str, str]) -> str:
    name = quoted_name(column.name)
    if column.type == BYTES:
        return f"unhex({name}[3:])"
    return f"CAST({name} AS {exact[column.name]})" if column.type == DECIMAL else name


def _digits_of(name: str, number: int) -> str:
    """How a column of decimals is written: its longest whole part and fraction, and whether all of it is plain."""
    return (
        f"max(length(ltrim(split_part({name}, '.', 1), '-'))) AS w{number}, "
        f"max(length(split_part({name}, '.', 2))) AS s{number}, "
        f"bool_and(regexp_full_match({name}, '-?[0-9]+([.][0-9]+)?')) AS d{number}"
    )


def _decimal(row: dict[str, Any], number: int) -> str:
    """18 digits where they are enough, else 38, the most that a DECIMAL has; longer ones, NaN and infinities stay text,
    which loses nothing."""
    whole, scale, is_plain = row[f"w{number}"], row[f"s{number}"], row[f"d{number}"]
    if is_plain is None:
        return f"DECIMAL({_SHORT},0)"  # there is no value at all
    if not is_plain or whole + scale > _LONG:
        return "VARCHAR"
    return f"DECIMAL({_SHORT if whole + scale <= _SHORT else _LONG},{scale})"


def _held(text: str, forms: Sequence[str]) -> bool:
    return any(form in text for form in forms)


def _is_text(kind: str) -> bool:
    return kind in ("VARCHAR", "BLOB", "JSON") or kind.startswith((*_NESTED, "ENUM(")) or kind.endswith("]")


def _is_searched(kind: str, forms: Sequence[str]) -> bool:
    return _is_text(kind) or any(_DIGITS.fullmatch(form) for form in forms)


def _as_text(column: TypedColumn) -> str:
    name = quoted_name(column.name)
    if column.type.startswith(_NESTED) or column.type.endswith("]"):
        return f"CAST(to_json({name}) AS VARCHAR)"
    return f"hex({name})" if column.type == "BLOB" else f"CAST({name} AS VARCHAR)"


def _looked_for(column: TypedColumn, forms: Sequence[str]) -> list[str]:
    """The forms as they stand in the text of a column, the longest first."""
    made = {form.encode().hex().upper() if column.type == "BLOB" else form for form in forms}
    return sorted(made, key=len, reverse=True)


def _search(column: TypedColumn, forms: Sequence[str]) -> str:
    heads = sorted({re.escape(form[:_HEAD]) for form in _looked_for(column, forms)})
    return f"regexp_matches({_as_text(column)}, {quoted('|'.join(heads))})"


def _masked(column: TypedColumn, forms: Sequence[str]) -> str:
    """The column as text without them. What holds a secret may lose its type over it."""
    looked_for = _looked_for(column, forms)
    mask = MASK.encode().hex().upper() if column.type == "BLOB" else MASK
    text = _as_text(column)
    # The heads too: whoever has cut a text may have cut a secret.
    for form in (*looked_for, *sorted({form[:_HEAD] for form in looked_for if len(form) > _HEAD})):
        text = f"replace({text}, {quoted(form)}, {quoted(mask)})"
    return f"unhex({text})" if column.type == "BLOB" else text
