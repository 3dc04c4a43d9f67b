"""Requests: the inputs of an SQL task, checked (TOOL-05). Also the new rows that a query finds for a trigger.

Authored SQL arrives bound (`templates.sql`); plain text is SQL verbatim, such as the contents of a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.binding import read
from noetl.templates.sql.statements import Bound, column, names_in, quoted_name, with_params
from noetl.tools.contract import Tool, ToolContext, TriggerBatch, TriggerItem, TriggerPoll
from noetl.tools.files import read_script

_SQL = ("command", "query", "script")
_INSERTING, _UPSERTING = ("insert", "append"), ("upsert", "merge")
_OWN = ("query", "cursor", "start")


class Insertion(msgspec.Struct, frozen=True):
    """Rows for a table."""

    table: str  # as SQL
    name: str  # as written
    # Rows with the same columns together, since a statement has one list of columns.
    groups: tuple[tuple[dict[str, Any], ...], ...]
    # Columns that identify existing rows, which are then updated.
    key: tuple[str, ...] = ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for group in self.groups for row in group]


async def with_script(inputs: Mapping[str, Any], folders: Sequence[str]) -> Mapping[str, Any]:
    """The inputs with the text of the file that `script` names, in its place."""
    script = inputs.get("script")
    if script is None or isinstance(script, Bound):
        return inputs
    uri = script.get("uri") if isinstance(script, dict) else script
    source = script.get("source") if isinstance(script, dict) else None
    place = source.get("type", "file") if isinstance(source, dict) else source or "file"
    if place != "file":
        raise ToolError("sql.input", f'script.source "{place}" is not known: write {{type: file}}')
    return {**inputs, "script": await read_script(str(uri), folders, kind="sql.input")}


def request(inputs: Mapping[str, Any], *, question_marks: bool = False) -> Bound | Insertion:
    """The statements, or the insertion, that a task asks for; `script` is the text itself (`with_script`). Raises
    ToolError if nothing, or more than one thing, is to be run."""
    given = [name for name in _SQL if inputs.get(name) is not None]
    if len(given) > 1:
        raise ToolError("sql.input", f'"{given[0]}" and "{given[1]}" are both SQL to run: keep one of them')
    if inputs.get("table") is not None:
        if given:
            raise ToolError("sql.input", f'"table" is an insert of its own and cannot stand beside "{given[0]}"')
        return _insertion(inputs)
    if not given:
        raise ToolError("sql.input", 'there is nothing to run: write "command", or "table" with "args"')
    bound = _sql(inputs[given[0]])
    if not bound.statements:
        raise ToolError("sql.input", "the SQL holds no statement")
    return with_params(bound, inputs.get("params"), question_marks=question_marks)


def _sql(value: Any) -> Bound:
    return value if isinstance(value, Bound) else read(value)


def _insertion(inputs: Mapping[str, Any]) -> Insertion:
    name = str(inputs["table"])
    if (names := names_in(name)) is None or len(names) != 1 or names == ["*"]:
        raise ToolError("sql.fragment", f'"{name}" is not a valid table name: write table or schema.table')
    args = inputs.get("args")
    rows: list[Any] = args if isinstance(args, list) else [args]
    if not all(isinstance(row, dict) and row for row in rows):
        raise ToolError("sql.input", '"table" needs "args": a row as a mapping of column to value, or a list of rows')
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(sorted(row)), []).append(row)
    return Insertion(column(name), name, tuple(map(tuple, groups.values())), _key(inputs))


def _key(inputs: Mapping[str, Any]) -> tuple[str, ...]:
    key, mode = inputs.get("key"), inputs.get("mode")
    if mode not in (None, *_INSERTING, *_UPSERTING):
        raise ToolError("sql.input", f'mode "{mode}" is not known: write {", ".join((*_INSERTING, *_UPSERTING))}')
    if mode not in _UPSERTING:
        return ()
    if not key:
        raise ToolError("sql.input", f'mode "{mode}" needs "key": the columns that identify a row')
    return (key,) if isinstance(key, str) else tuple(map(str, key))


def conflict_clause(insertion: Insertion, columns: list[str]) -> str:
    """The clause for existing rows; empty without a key."""
    if not insertion.key:
        return ""
    rest = [name for name in columns if name not in insertion.key]
    update = ", ".join(f"{quoted_name(name)} = EXCLUDED.{quoted_name(name)}" for name in rest)
    keys = ", ".join(map(quoted_name, insertion.key))
    return f" ON CONFLICT ({keys}) DO " + (f"UPDATE SET {update}" if update else "NOTHING")


def reference_to(insertion: Insertion, store: str, row_count: int) -> dict[str, Any]:
    """Where the rows of an insertion now are (RES-05); `size` counts the bytes of the rows as JSON."""
    size = len(msgspec.json.encode(insertion.rows))
    return {"store": store, "key": insertion.name, "size": size, "row_count": row_count, "schema_hint": "rows"}


# Transactions that SQL keeps itself: then the tool begins none of its own.
_CONTROL = re.compile(
    r"\s*(?:BEGIN|START\s+TRANSACTION|COMMIT|END|ABORT|ROLLBACK(?!\s+(?:(?:WORK|TRANSACTION)\s+)?TO\b))\b",
    re.IGNORECASE,
)


def keeps_transactions(bound: Bound) -> bool:
    """Whether the SQL begins or ends transactions itself."""
    return any(_CONTROL.match(statement.text) for statement in bound.statements)


# New rows: the rows after a cursor, for triggers of the kinds that run SQL.
#
# The query is the author's own, with `:cursor` and `:limit` bound. Its cursor column must be unique and must grow from
# row to row: then a cursor says exactly which rows have been seen.


async def new_rows(tool: Tool, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
    """The rows after the cursor, in the order of the query."""
    after = inputs.get("start") if poll.cursor is None else poll.cursor
    rest = {name: value for name, value in inputs.items() if name not in _OWN}
    params = {"cursor": after, "limit": poll.limit}
    ran = await tool.run({**rest, "query": str(inputs.get("query")), "params": params}, context)
    rows: list[dict[str, Any]] = ran.result["data"][: poll.limit]
    column = str(inputs.get("cursor"))
    items: list[TriggerItem] = []
    for row in rows:
        value = _cursor_of(row, column)
        # A cursor cannot distinguish equal values: the rest of them would be skipped.
        if value == after or (items and value == items[-1].value[column]):
            raise _unfit_column(column, f"is {value} in two rows")
        items.append(TriggerItem(item_id=f"{column}={value}", value=row))
    _check_order([item.value[column] for item in items], column)
    return TriggerBatch(items=tuple(items), cursor=items[-1].value[column] if items else after)


def _cursor_of(row: Mapping[str, Any], column: str) -> Any:
    if column not in row:
        raise ToolError("sql.input", f'the query gives no column "{column}": it gives {", ".join(row)}')
    if row[column] is None:
        raise _unfit_column(column, "is null in a row")
    return row[column]


def _check_order(values: list[Any], column: str) -> None:
    """Compare numbers and texts by the rules of this machine; a database that sorts texts by other rules is trusted."""
    if all(isinstance(value, int | float) for value in values) and values != sorted(values):
        raise _unfit_column(column, "does not grow from row to row: the query needs ORDER BY")


def _unfit_column(column: str, what: str) -> ToolError:
    return ToolError("sql.input", f'the cursor column "{column}" {what}: it must be unique, and grow with every row')
