"""What is allowed at each point of a statement, known from the tokens before it (design.md §8).

A VALUE is allowed after an operator, in the value list of VALUES and IN, in the arguments of a call, and after words
such as LIMIT and THEN. A NAME is allowed after FROM, BY, INTO and similar words, and after a finished operand. Where
both are allowed (a select list, a condition) the place is OPEN. This is not a full grammar: a place counts as VALUE
only if that is certain. In some places a list expands to its items: these places (`ListPlace`), and the expansion, are
here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.lexer import Kind, SqlToken
from noetl.templates.sql.statements import Parameter, Part


class SqlPosition(StrEnum):
    VALUE = "value"
    NAME = "name"
    OPEN = "open"


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VALUE_WORDS = words(
    "LIMIT OFFSET LIKE ILIKE RLIKE REGEXP GLOB BETWEEN SYMMETRIC ESCAPE THEN ELSE DEFAULT IN ANY ALL SOME"
)
_OPEN_WORDS = words("SELECT DISTINCT WHERE AND OR NOT ON HAVING QUALIFY WHEN CASE RETURNING")
_NAME_WORDS = words(
    "FROM JOIN INTO UPDATE TABLE BY SET AS USING WITH RECURSIVE OVER PARTITION CONFLICT KEY UNIQUE REFERENCES ONLY "
    "LATERAL EXISTS VALUES UNION EXCEPT INTERSECT SETS FILTER WITHIN MATERIALIZED COPY VIEW INDEX ANALYZE"
)
_VALUE_LISTS = words("VALUES IN ANY ALL SOME ROW ARRAY")
_KEYWORDS = _VALUE_WORDS | _OPEN_WORDS | _NAME_WORDS | _VALUE_LISTS
_CLAUSES = words("SELECT FROM WHERE SET BY HAVING RETURNING LIMIT OFFSET ON USING VALUES WITH QUALIFY")
# `INTO t (`, `TABLE t (`, `AS t (`: the parentheses after the name contain columns, not arguments.
_OWNERS = words("INTO TABLE REFERENCES COPY WITH RECURSIVE AS VIEW")
_IN_CREATE = frozenset({"ON", "EXISTS"})


class _Frame:
    """One level of parentheses: the start of each item of its list, their owner (VALUES, IN, `[`, the name of a
    function), and open BETWEENs."""

    __slots__ = ("between", "call", "item", "owner", "selects", "values")

    def __init__(self, item: SqlPosition, *, call: bool = False, owner: str = "") -> None:
        self.item = item
        self.call = call
        self.owner = owner
        self.selects = False
        self.values = False
        self.between = 0


class SqlScanner:
    """Walks over the tokens of one statement. `place` is what may come next, `words` the words just before."""

    def __init__(self) -> None:
        self.place = SqlPosition.NAME
        self.depth = 0
        self._frames = [_Frame(SqlPosition.NAME)]
        self._first = ""
        self._owner = ""  # the keyword that rules the current name
        self._before: list[str] = ["", ""]  # the last two tokens, in capitals
        self._named = False  # whether the last token was a name

    def take(self, token: SqlToken) -> None:
        """Move past `token`; white space changes nothing."""
        match token.kind:
            case Kind.SPACE:
                return
            case Kind.WORD:
                self._word(token.text.upper())
            case Kind.OPERATOR:
                self._operator(token.text)
            case Kind.SIGN:
                self._sign(token.text)
            case _:
                self._operand(named=token.kind is Kind.NAME)
        self._before = [self._before[1], token.text.upper()]

    @property
    def within(self) -> str:
        """Whose parentheses or brackets are open: VALUES, IN, ANY, ROW, `[`, or the name of a function, in capitals."""
        return self._frame.owner

    @property
    def _frame(self) -> _Frame:
        return self._frames[-1]

    def _operand(self, *, named: bool) -> None:
        self._named = named
        self.place = SqlPosition.NAME

    def _word(self, word: str) -> None:
        self._first = self._first or word
        special = self._special(word)
        if word not in _KEYWORDS and not special:
            self._operand(named=True)
            return
        self._named, self._owner = False, word
        if special:
            self.place = SqlPosition.VALUE
        # The AND of `BETWEEN a AND b` takes a value; any other begins a condition.
        elif word == "AND" and self._frame.between:
            self._frame.between -= 1
            self.place = SqlPosition.VALUE
        elif word in _VALUE_WORDS:
            self.place = SqlPosition.VALUE
        else:
            self.place = SqlPosition.OPEN if word in _OPEN_WORDS else SqlPosition.NAME
        if (word in _CLAUSES and self.place is not SqlPosition.VALUE) or word in ("LIMIT", "OFFSET"):
            self._clause(word)
        if word == "BETWEEN":
            self._frame.between += 1

    def _special(self, word: str) -> bool:
        """Words that take a value in company only."""
        before = self._before[1]
        match word:
            case "FROM":
                apart = before == "DISTINCT" and self._before[0] in ("IS", "NOT")
                return apart or (self._frame.call and not self._frame.selects)
            case "FOR":
                return self._frame.call and not self._frame.selects
            case "TO":
                return before == "SIMILAR"
            case "ZONE":
                return self._before == ["AT", "TIME"]
            case "FIRST" | "NEXT":
                return before == "FETCH"
            case _:
                return False

    def _clause(self, word: str) -> None:
        frame = self._frame
        frame.item = self.place
        frame.values = word == "VALUES"
        frame.selects = frame.selects or word == "SELECT"
        frame.between = 0

    def _operator(self, text: str) -> None:
        # `SELECT *` is a finished operand; everywhere else a star multiplies and takes a value.
        star = text == "*" and self._before[1] in ("SELECT", "DISTINCT", "ALL", "RETURNING", ",", "(", ".", "")
        self._named, self._owner = False, ""
        self.place = SqlPosition.NAME if star or text == "::" else SqlPosition.VALUE

    def _sign(self, sign: str) -> None:
        match sign:
            case "(":
                self._open(self._frame_inside())
            case "[":
                self._open(_Frame(SqlPosition.VALUE, owner="["))
            case "{":
                self._open(_Frame(SqlPosition.NAME))
            case ")" | "]" | "}":
                if len(self._frames) > 1:
                    self._frames.pop()
                self.depth = max(self.depth - 1, 0)
                self.place = SqlPosition.NAME
            case ",":
                self.place = self._frame.item
            case ":":
                self.place = SqlPosition.VALUE
            case _:
                self.place = SqlPosition.NAME
        if sign != ".":  # a qualified name is one name
            self._named, self._owner = False, ""

    def _open(self, frame: _Frame) -> None:
        self._frames.append(frame)
        self.depth += 1
        self.place = frame.item

    def _frame_inside(self) -> _Frame:
        """The contents of a parenthesis opened here."""
        before = self._before[1]
        if before == "," and self._frame.values:
            return _Frame(SqlPosition.VALUE, owner="VALUES")
        if before in _VALUE_LISTS and not self._named:
            return _Frame(SqlPosition.VALUE, owner=before)
        if self._named:
            columns = self._owner in _OWNERS or (self._owner in _IN_CREATE and self._first == "CREATE")
            return (
                _Frame(SqlPosition.NAME) if columns else _Frame(SqlPosition.VALUE, call=True, owner=before.strip('"'))
            )
        return _Frame(self.place)


# Lists: the parameters for a list where SQL takes its items.

# `IN (` and `NOT IN (` as comparisons with a list, the empty one too
ANY_OF, ALL_OF = "= ANY (", "<> ALL ("


def add_list(listed: PlacedList, source: str, value: list[Any], parts: list[Part]) -> str:
    """Insert a list in its place; return the sign after it that belongs to the replaced part."""
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
        case ListPlace.ARRAY if not value:  # ARRAY[] has no type; an empty list gets the type that its place requires
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
    """Remove words from the end of a statement, with the tokens after them."""
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


# List places: the places of a statement where a list expands to its items, known from the author's text alone.

_COMPARED = frozenset({"ANY", "ALL", "SOME"})


class ListPlace(StrEnum):
    IN = "IN"  # the whole of IN (…)
    NOT_IN = "NOT IN"
    AFTER_IN = "AFTER IN"  # IN without parentheses
    AFTER_NOT_IN = "AFTER NOT IN"
    ANY = "ANY"  # the whole of ANY (…)
    ITEMS = "ITEMS"  # an item of ARRAY[…] or […]
    ARRAY = "ARRAY"  # the whole of ARRAY[…], where another array is allowed
    ROW = "ROW"  # the whole of one row of VALUES
    ROWS = "ROWS"  # after VALUES, in place of all rows
    ROWS_INSIDE = "ROWS INSIDE"  # rows of one item between one pair of parentheses: VALUES ({{ x | join('),(') }})


class PlacedList(msgspec.Struct, frozen=True):
    """A place for a list; `columns` are the names that a row of VALUES belongs to, as far as they are written."""

    place: ListPlace
    columns: tuple[str, ...] = ()


def list_place(tokens: list[SqlToken], index: int, walk: SqlScanner) -> PlacedList | None:
    """The expansion of a list at the template `tokens[index]`; None if it is an ordinary value."""
    before, after = _tokens_before(tokens, index), _after(tokens, index)
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
    """Whether ARRAY[…] follows a parenthesis, a comma or an operator."""
    if len(before) < 3 or before[-3] in ("(", ","):
        return len(before) > 2
    return any(token.kind is Kind.OPERATOR and token.text == before[-3] for token in tokens)


def _columns(tokens: list[SqlToken], index: int) -> tuple[str, ...]:
    """The columns named before VALUES: `INTO t (a, b) VALUES`."""
    words = _tokens_before(tokens, index)
    values = len(words) - 1 - words[::-1].index("VALUES")
    if words[values - 1 : values] != [")"] or "INTO" not in words[:values]:
        return ()
    written = [token for token in tokens[:index] if token.kind is not Kind.SPACE][: values - 1]
    names: list[str] = []
    while written and (token := written.pop()).text != "(":
        if token.text != ",":
            # A name without quotes folds to lower case, and the keys of a row are compared with that.
            names.append(token.text[1:-1].replace('""', '"') if token.kind is Kind.NAME else token.text.lower())
    return tuple(reversed(names))


def _tokens_before(tokens: list[SqlToken], index: int) -> list[str]:
    """The tokens before another in capitals, white space left out."""
    return [token.text.upper() for token in tokens[:index] if token.kind is not Kind.SPACE]


def _after(tokens: list[SqlToken], index: int) -> str:
    return next((token.text for token in tokens[index + 1 :] if token.kind is not Kind.SPACE), "")
