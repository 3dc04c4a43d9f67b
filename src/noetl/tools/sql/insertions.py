"""Insertions, in the child: rows into a table, in the words of each dialect. Names are quoted where they need it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy.engine import Dialect

from noetl.base.errors import ToolError
from noetl.tools.sql.dialects import dialect_named
from noetl.tools.sql.rendering import placeholder, row_arguments

ROWS_AT_ONCE = 1_000


def insertions(insertion: dict[str, Any], dialect: Dialect) -> Iterator[tuple[str, list[Any]]]:
    """Statements with the rows that each of them is run for."""
    quote = dialect.identifier_preparer.quote
    table = ".".join(quote(name.strip('"')) for name in insertion["table"].split("."))
    for group in insertion["groups"]:
        columns = sorted(group[0])
        text = _statement(table, columns, insertion["key"], dialect)
        rows = [row_arguments([row[name] for name in columns], dialect) for row in group]
        for start in range(0, len(rows), ROWS_AT_ONCE):
            yield text, rows[start : start + ROWS_AT_ONCE]


def _statement(table: str, columns: list[str], key: list[str], dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    names = [quote(name) for name in columns]
    keys = [quote(name) for name in key]
    signs = [placeholder(number, dialect) for number in range(1, len(columns) + 1)]
    insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(signs)})"  # noqa: S608  names are quoted
    if not keys:
        return insert
    rest = [name for name in names if name not in keys]
    known = dialect_named(dialect.name)
    match known.upsert if known is not None else "merge":
        case "conflict":
            update = ", ".join(f"{name} = excluded.{name}" for name in rest)
            return f"{insert} ON CONFLICT ({', '.join(keys)}) DO " + (f"UPDATE SET {update}" if rest else "NOTHING")
        case "duplicate":
            update = ", ".join(f"{name} = VALUES({name})" for name in rest or keys)
            return f"{insert} ON DUPLICATE KEY UPDATE {update}"
        case "none":
            raise ToolError(
                "sql.input", f"{dialect.name} has no upsert: leave mode out, or write the statement yourself"
            )
        case _:
            return _merge(table, names, keys, rest, signs, dialect)


def _merge(table: str, names: list[str], keys: list[str], rest: list[str], signs: list[str], dialect: Dialect) -> str:
    given = ", ".join(f"{sign} AS {name}" for sign, name in zip(signs, names, strict=True))
    source = f"SELECT {given}" + (" FROM dual" if dialect.name == "oracle" else "")  # noqa: S608  signs and quoted names
    same = " AND ".join(f"t.{name} = s.{name}" for name in keys)
    update = ", ".join(f"{name} = s.{name}" for name in rest)
    matched = f" WHEN MATCHED THEN UPDATE SET {update}" if rest else ""
    inserted = f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"  # noqa: S608
    end = ";" if dialect.name == "mssql" else ""
    return f"MERGE INTO {table} t USING ({source}) s ON ({same}){matched} WHEN NOT MATCHED THEN {inserted}{end}"
