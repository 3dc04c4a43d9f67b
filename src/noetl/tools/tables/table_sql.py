"""What is asked of DuckDB about files of tables, as SQL text. Its child process makes some of it too, so nothing is
imported here that takes long to load."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.redaction import MASK
from noetl.templates.sql.statements import quoted, quoted_name

NULL = "\\N"  # in CSV of ours; an empty line would be no row at all
DECIMAL, BYTES = "DECIMAL of any scale", "bytes as \\x and hexadecimal digits"  # kinds of columns beside DuckDB's types
# One row as a line of JSON; longer ones are refused by DuckDB's reader.
_LINE_BYTES = 16 << 20
_HEAD = 32  # characters of a secret's form that are looked for first: long ones would make a large pattern
_NESTED = ("STRUCT(", "MAP(", "UNION(")
# Digits of a DECIMAL that is a 64-bit number, and of the widest there is. To read a text as a wide one takes DuckDB
# 4.6 us, as a short one 0.1 us: that was a third of the processor time of a whole transfer, and more.
_SHORT, _LONG = 18, 38
_DIGITS = re.compile(r"[-+.\d]+")


class TypedColumn(msgspec.Struct, frozen=True):
    name: str
    type: str


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


def read_as(kind: str) -> str:
    return "VARCHAR" if kind in (DECIMAL, BYTES) else kind


def value_of(column: TypedColumn, exact: dict[str, str]) -> str:
    name = quoted_name(column.name)
    if column.type == BYTES:
        return f"unhex({name}[3:])"
    return f"CAST({name} AS {exact[column.name]})" if column.type == DECIMAL else name


def digits_of(name: str, number: int) -> str:
    """How a column of decimals is written: its longest whole part and fraction, and whether all of it is plain."""
    return (
        f"max(length(ltrim(split_part({name}, '.', 1), '-'))) AS w{number}, "
        f"max(length(split_part({name}, '.', 2))) AS s{number}, "
        f"bool_and(regexp_full_match({name}, '-?[0-9]+([.][0-9]+)?')) AS d{number}"
    )


def decimal_type(row: dict[str, Any], number: int) -> str:
    """18 digits where they are enough, else 38, the most that a DECIMAL has; longer ones, NaN and infinities stay text,
    which loses nothing."""
    whole, scale, is_plain = row[f"w{number}"], row[f"s{number}"], row[f"d{number}"]
    if is_plain is None:
        return f"DECIMAL({_SHORT},0)"  # there is no value at all
    if not is_plain or whole + scale > _LONG:
        return "VARCHAR"
    return f"DECIMAL({_SHORT if whole + scale <= _SHORT else _LONG},{scale})"


def is_held(text: str, forms: Sequence[str]) -> bool:
    return any(form in text for form in forms)


def _is_text(kind: str) -> bool:
    return kind in ("VARCHAR", "BLOB", "JSON") or kind.startswith((*_NESTED, "ENUM(")) or kind.endswith("]")


def is_searched(kind: str, forms: Sequence[str]) -> bool:
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


def search(column: TypedColumn, forms: Sequence[str]) -> str:
    heads = sorted({re.escape(form[:_HEAD]) for form in _looked_for(column, forms)})
    return f"regexp_matches({_as_text(column)}, {quoted('|'.join(heads))})"


def masked(column: TypedColumn, forms: Sequence[str]) -> str:
    """The column as text without them. What holds a secret may lose its type over it."""
    looked_for = _looked_for(column, forms)
    mask = MASK.encode().hex().upper() if column.type == "BLOB" else MASK
    text = _as_text(column)
    # The heads too: whoever has cut a text may have cut a secret.
    for form in (*looked_for, *sorted({form[:_HEAD] for form in looked_for if len(form) > _HEAD})):
        text = f"replace({text}, {quoted(form)}, {quoted(mask)})"
    return f"unhex({text})" if column.type == "BLOB" else text
