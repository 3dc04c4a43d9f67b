"""New rows: what a query finds after a cursor, for triggers of the kinds that run SQL.

The query is the author's own, with `:cursor` and `:limit` bound. Its cursor column must be unique and must grow from
row to row: then a cursor says exactly which rows have been seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.contract import Tool, ToolContext
from noetl.tools.trigger_source import TriggerBatch, TriggerItem, TriggerPoll

_OWN = ("query", "cursor", "start")


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
        if value == after or (items and value == items[-1].value[column]):
            raise _unfit(column, f"is {value} in two rows")
        items.append(TriggerItem(item_id=f"{column}={value}", value=row))
    _check_order([item.value[column] for item in items], column)
    return TriggerBatch(items=tuple(items), cursor=items[-1].value[column] if items else after)


def _cursor_of(row: Mapping[str, Any], column: str) -> Any:
    if column not in row:
        raise ToolError("sql.input", f'the query gives no column "{column}": it gives {", ".join(row)}')
    if row[column] is None:
        raise _unfit(column, "is null in a row")
    return row[column]


def _check_order(values: list[Any], column: str) -> None:
    """Numbers and texts as this machine compares them; a database that sorts texts by other rules is believed."""
    if all(isinstance(value, int | float) for value in values) and values != sorted(values):
        raise _unfit(column, "does not grow from row to row: the query needs ORDER BY")


def _unfit(column: str, what: str) -> ToolError:
    return ToolError("sql.input", f'the cursor column "{column}" {what}: it must be unique, and grow with every row')
