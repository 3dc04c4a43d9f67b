"""Lists in SQL: the parameters that stand for a list where SQL takes its items (`sql.list_places`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noetl.base.errors import ToolError
from noetl.templates.sql.list_places import ListPlace, PlacedList
from noetl.templates.sql.statements import Parameter, Part

# `IN (` and `NOT IN (` as comparisons with a list, the empty one too
ANY_OF, ALL_OF = "= ANY (", "<> ALL ("


def add_list(listed: PlacedList, source: str, value: list[Any], parts: list[Part]) -> str:
    """Put a list where it stands; the sign that comes after it and belongs to what it has taken the place of."""
    whole = Parameter(value, source=source)
    match listed.place:
        case ListPlace.IN | ListPlace.NOT_IN:
            _take_back(listed.place, parts)
            parts += [ANY_OF if listed.place is ListPlace.IN else ALL_OF, whole]
        case ListPlace.AFTER_IN | ListPlace.AFTER_NOT_IN:
            _take_back(listed.place.removeprefix("AFTER "), parts)
            parts += [ANY_OF if listed.place is ListPlace.AFTER_IN else ALL_OF, whole, ")"]
        case ListPlace.ANY:
            parts.append(whole)
        case ListPlace.ARRAY if not value:  # ARRAY[] has no type; an empty list takes the one that is asked for
            _take_back("ARRAY", parts)
            parts.append(whole)
            return "]"
        case ListPlace.ARRAY | ListPlace.ITEMS:
            parts += _items(value, source)
        case ListPlace.ROW if len(listed.columns) == 1:
            parts.append(whole)
        case ListPlace.ROW:
            parts += _items(value, source)
        case ListPlace.ROWS:
            parts += ["(", *_rows(listed, value, source), ")"]
        case ListPlace.ROWS_INSIDE:
            parts += _rows(listed, value, source)
    return ""


def _take_back(words: str, parts: list[Part]) -> None:
    """Take words off the end of a statement, with what stands after them."""
    left = words.split()
    while left:
        if str(parts.pop()).upper() == left[-1]:
            left.pop()


def _items(items: list[Any], source: str) -> Iterator[Part]:
    """Each item as a value of its own; a list in it as an array."""
    for index, item in enumerate(items):
        if index:
            yield ", "
        if isinstance(item, list):
            yield "["
            yield from _items(item, f"{source}[{index}]")
            yield "]"
        else:
            yield Parameter(item, typed=True, source=f"{source}[{index}]")


def _rows(listed: PlacedList, rows: list[Any], source: str) -> Iterator[Part]:
    """Rows without the first and the last parenthesis. A mapping gives its values by the names of the columns."""
    if not rows:
        raise ToolError(
            "sql.fragment", f"{source} gives an empty list, and VALUES needs a row: leave the task out then"
        )
    for index, row in enumerate(rows):
        if index:
            yield "), ("
        for number, item in enumerate(_cells(listed, row, source)):
            if number:
                yield ", "
            yield Parameter(item, typed=True)


def _cells(listed: PlacedList, row: Any, source: str) -> list[Any]:
    if isinstance(row, dict):
        names = listed.columns or tuple(row)
        if missing := [name for name in names if name not in row]:
            raise ToolError("sql.fragment", f'a row of {source} has no "{missing[0]}", which VALUES needs')
        return [row[name] for name in names]
    return row if isinstance(row, list) else [row]
