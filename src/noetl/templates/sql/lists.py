"""Lists in SQL: the parameters that stand for a list where SQL takes its items (`sql.list_places`)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.lexer import Kind, SqlToken
from noetl.templates.sql.positions import SqlScanner
from noetl.templates.sql.statements import Parameter, Part

# `IN (` and `NOT IN (` as comparisons with a list, the empty one too
ANY_OF, ALL_OF = "= ANY (", "<> ALL ("


def add_list(listed: PlacedList, source: str, value: list[Any], parts: list[Part]) -> str:
    """Put a list where it stands; the sign that comes after it and belongs to what it has taken the place of."""
    whole = Parameter(value, source=source)
    match listed.place:
        case ListPlace.IN | ListPlace.NOT_IN:
            _take_back(listed.place, parts)
            # One array parameter instead of one for each item: the statement is the same for every length, and `IN ()`
            # of an empty list, which is no SQL, becomes `= ANY ('{}')`.
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


# List places: where in a statement a list may stand for its items, told from the author's text alone.

_COMPARED = frozenset({"ANY", "ALL", "SOME"})


class ListPlace(StrEnum):
    IN = "IN"  # the whole of IN (…)
    NOT_IN = "NOT IN"
    AFTER_IN = "AFTER IN"  # IN without parentheses
    AFTER_NOT_IN = "AFTER NOT IN"
    ANY = "ANY"  # the whole of ANY (…)
    ITEMS = "ITEMS"  # an item of ARRAY[…] or […]
    ARRAY = "ARRAY"  # the whole of ARRAY[…], where another array may stand
    ROW = "ROW"  # the whole of one row of VALUES
    ROWS = "ROWS"  # after VALUES, in place of all rows
    ROWS_INSIDE = "ROWS INSIDE"  # rows of one item between one pair of parentheses: VALUES ({{ x | join('),(') }})


class PlacedList(msgspec.Struct, frozen=True):
    """A place for a list; `columns` are the names that a row of VALUES belongs to, as far as they are written."""

    place: ListPlace
    columns: tuple[str, ...] = ()


def list_place(tokens: list[SqlToken], index: int, walk: SqlScanner) -> PlacedList | None:
    """What a list may do at the template `tokens[index]`; None where it is a value like any other."""
    before, after = _before(tokens, index), _after(tokens, index)
    match before[-1:], after:
        case (["("], ")") if walk.within == "IN":
            return PlacedList(ListPlace.NOT_IN if before[-3:-2] == ["NOT"] else ListPlace.IN)
        case (["("], ")") if walk.within in _COMPARED:
            return PlacedList(ListPlace.ANY)
        case (["("], ")") if walk.within == "VALUES":
            return PlacedList(ListPlace.ROW, _columns(tokens, index))
        case (["["], "]") if before[-2:-1] == ["ARRAY"] and _takes_array(tokens, before):
            return PlacedList(ListPlace.ARRAY)
        case (["["] | [","], "]" | ",") if walk.within == "[":
            return PlacedList(ListPlace.ITEMS)
        case (["VALUES"], _):
            return PlacedList(ListPlace.ROWS, _columns(tokens, index))
        case (["IN"], _):
            return PlacedList(ListPlace.AFTER_NOT_IN if before[-2:-1] == ["NOT"] else ListPlace.AFTER_IN)
    return None


def _takes_array(tokens: list[SqlToken], before: list[str]) -> bool:
    """Whether ARRAY[…] stands after a parenthesis, a comma or an operator."""
    if len(before) < 3 or before[-3] in ("(", ","):
        return len(before) > 2
    return any(token.kind is Kind.OPERATOR and token.text == before[-3] for token in tokens)


def _columns(tokens: list[SqlToken], index: int) -> tuple[str, ...]:
    """The columns named before VALUES: `INTO t (a, b) VALUES`."""
    words = _before(tokens, index)
    values = len(words) - 1 - words[::-1].index("VALUES")
    if words[values - 1 : values] != [")"] or "INTO" not in words[:values]:
        return ()
    written = [token for token in tokens[:index] if token.kind is not Kind.SPACE][: values - 1]
    names: list[str] = []
    while written and (token := written.pop()).text != "(":
        if token.text != ",":
            names.append(token.text[1:-1].replace('""', '"') if token.kind is Kind.NAME else token.text.lower())
    return tuple(reversed(names))


def _before(tokens: list[SqlToken], index: int) -> list[str]:
    """The tokens before another in capitals, white space left out."""
    return [token.text.upper() for token in tokens[:index] if token.kind is not Kind.SPACE]


def _after(tokens: list[SqlToken], index: int) -> str:
    return next((token.text for token in tokens[index + 1 :] if token.kind is not Kind.SPACE), "")
