"""What may stand at each point of a statement, told from the tokens before it (design.md §8).

A VALUE is taken after an operator, in the value list of VALUES and IN, in the arguments of a call, and after words
such as LIMIT and THEN. A NAME is taken after FROM, BY, INTO and their kin, and after a finished operand. Where both
may stand (a select list, a condition) the place is OPEN. This is no grammar: what is not surely a VALUE is not one.
"""

from __future__ import annotations

from enum import StrEnum

from noetl.templates.sql.lexer import Kind, SqlToken


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
# `INTO t (`, `TABLE t (`, `AS t (`: what follows the name in parentheses are columns, not arguments.
_OWNERS = words("INTO TABLE REFERENCES COPY WITH RECURSIVE AS VIEW")
_IN_CREATE = frozenset({"ON", "EXISTS"})


class _Frame:
    """One level of parentheses: what begins each item of its list, whose parentheses they are (VALUES, IN, `[`, the
    name of a function), and open BETWEENs."""

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
        star = text == "*" and self._before[1] in ("SELECT", "DISTINCT", "ALL", "RETURNING", ",", "(", ".", "")
        self._named, self._owner = False, ""
        self.place = SqlPosition.NAME if star or text == "::" else SqlPosition.VALUE

    def _sign(self, sign: str) -> None:
        match sign:
            case "(":
                self._open(self._inside())
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

    def _inside(self) -> _Frame:
        """What a parenthesis opened here holds."""
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
