"""SQL text for DuckDB on files of tables. The child process imports this module too, so it has no slow imports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.redaction import MASK
from noetl.templates.sql.statements import quoted, quoted_name

NULL = "\\N"  # in our CSV; with an empty text, a row of one NULL would be an empty line and get lost
DECIMAL, BYTES = "DECIMAL of any scale", "bytes as \\x and hexadecimal digits"  # besides DuckDB's types
# DuckDB's reader refuses longer lines.
_MAX_LINE_BYTES = 16 << 20
_HEAD = 32  # characters of a secret that are searched first: long secrets would make a large pattern
_NESTED = ("STRUCT(", "MAP(", "UNION(")
# Digits of a DECIMAL that fits 64 bits, and of the widest one. DuckDB takes 4.6 us to parse a wide one and 0.1 us for
# a short one; that was more than a third of the CPU time of a whole transfer.
_SHORT, _LONG = 18, 38
_DIGITS = re.compile(r"[-+.\d]+")


class TypedColumn(msgspec.Struct, frozen=True):
    """A column with its type in DuckDB, or DECIMAL or BYTES."""

    name: str
    type: str


def scan(file: Path) -> str:
    """The SQL that reads a Parquet file."""
    return f"read_parquet({quoted(str(file))})"


def csv_scan(file: Path, columns: Sequence[TypedColumn]) -> str:
    types = ", ".join(f"{quoted(column.name)}: {quoted(column.type)}" for column in columns)
    return (
        f"read_csv({quoted(str(file))}, header = false, auto_detect = false, delim = ',', quote = '\"', "
        f"escape = '\"', nullstr = {quoted(NULL)}, allow_quoted_nulls = false, strict_mode = true, "
        f"max_line_size = {_MAX_LINE_BYTES}, buffer_size = {2 * _MAX_LINE_BYTES}, columns = {{{types}}})"
    )


def copy_to(file: Path, query: str) -> str:
    """The SQL that writes rows as Parquet, in groups that are written as soon as they are complete."""
    return f"COPY ({query}) TO {quoted(str(file))} (FORMAT parquet, ROW_GROUP_SIZE 100000)"


def rows_of_json(written: Path, file: Path) -> str:
    """The SQL that converts lines of JSON to Parquet."""
    rows = f"read_json({quoted(str(written))}, format = 'newline_delimited')"
    return copy_to(file, f"SELECT * FROM {rows}")  # noqa: S608  a path of ours


def unique_names(names: Sequence[str]) -> list[str]:
    """Unique column names: a query may return two columns of one name, a table cannot have them."""
    unique: list[str] = []
    for name in names:
        number, tried = 1, name
        while tried.lower() in {other.lower() for other in unique}:
            tried, number = f"{name}_{number}", number + 1
        unique.append(tried)
    return unique


def csv_type(kind: str) -> str:
    return "VARCHAR" if kind in (DECIMAL, BYTES) else kind


def value_sql(column: TypedColumn, exact: dict[str, str]) -> str:
    name = quoted_name(column.name)
    if column.type == BYTES:
        return f"unhex({name}[3:])"
    return f"CAST({name} AS {exact[column.name]})" if column.type == DECIMAL else name


def digits_sql(name: str, number: int) -> str:
    """The SQL that measures a decimal column: its longest whole part and fraction, and whether all are plain
    numbers."""
    return (
        f"max(length(ltrim(split_part({name}, '.', 1), '-'))) AS w{number}, "
        f"max(length(split_part({name}, '.', 2))) AS s{number}, "
        f"bool_and(regexp_full_match({name}, '-?[0-9]+([.][0-9]+)?')) AS d{number}"
    )


def decimal_type(row: dict[str, Any], number: int) -> str:
    """A DECIMAL of 18 digits if that is enough, else of 38, the maximum. Longer numbers, NaN and infinities stay text,
    which loses nothing."""
    whole, scale, is_plain = row[f"w{number}"], row[f"s{number}"], row[f"d{number}"]
    if is_plain is None:
        return f"DECIMAL({_SHORT},0)"  # the column has no value
    if not is_plain or whole + scale > _LONG:
        return "VARCHAR"
    return f"DECIMAL({_SHORT if whole + scale <= _SHORT else _LONG},{scale})"


def has_secret(text: str, forms: Sequence[str]) -> bool:
    return any(form in text for form in forms)


def _is_text(kind: str) -> bool:
    return kind in ("VARCHAR", "BLOB", "JSON") or kind.startswith((*_NESTED, "ENUM(")) or kind.endswith("]")


def may_have_secret(kind: str, forms: Sequence[str]) -> bool:
    return _is_text(kind) or any(_DIGITS.fullmatch(form) for form in forms)


def _as_text(column: TypedColumn) -> str:
    name = quoted_name(column.name)
    if column.type.startswith(_NESTED) or column.type.endswith("]"):
        return f"CAST(to_json({name}) AS VARCHAR)"
    return f"hex({name})" if column.type == "BLOB" else f"CAST({name} AS VARCHAR)"


def _search_forms(column: TypedColumn, forms: Sequence[str]) -> list[str]:
    """The forms of secrets in the text of a column, the longest first."""
    forms_in_column = {form.encode().hex().upper() if column.type == "BLOB" else form for form in forms}
    return sorted(forms_in_column, key=len, reverse=True)


def search_sql(column: TypedColumn, forms: Sequence[str]) -> str:
    heads = sorted({re.escape(form[:_HEAD]) for form in _search_forms(column, forms)})
    return f"regexp_matches({_as_text(column)}, {quoted('|'.join(heads))})"


def masked_sql(column: TypedColumn, forms: Sequence[str]) -> str:
    """The SQL of the column as text without secrets. A column with a secret may lose its type."""
    search_forms = _search_forms(column, forms)
    mask = MASK.encode().hex().upper() if column.type == "BLOB" else MASK
    text = _as_text(column)
    # The heads too: a text that was cut may contain the beginning of a secret.
    heads = {form[:_HEAD] for form in search_forms if len(form) > _HEAD}
    listed = ", ".join(map(quoted, (*search_forms, *sorted(heads))))
    # One after another over a list: DuckDB refuses an expression of more than 1,000 calls inside each other, and fifty
    # secrets have more forms than that.
    text = f"list_reduce([{listed}], lambda masked, form: replace(masked, form, {quoted(mask)}), {text})"
    return f"unhex({text})" if column.type == "BLOB" else text
