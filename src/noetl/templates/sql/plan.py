"""Plans: SQL text cut into statements, every template with its place. Nothing is evaluated here.

A plan depends on the author's text alone, so what a value can do to a statement is settled before there is a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from noetl.base.errors import ToolError
from noetl.templates.expression import Template, template_of
from noetl.templates.sql.lexer import HOLE, Hole, Kind, SqlToken, cut, has_blocks, is_joined, tokens
from noetl.templates.sql.positions import ListPlace, PlacedList, SqlPosition, SqlScanner, list_place, words

# Statements that take parameters. In all others (CREATE, SET, COPY, …) values are written as constants.
_TAKE_PARAMETERS = frozenset(
    {"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "WITH", "TABLE", "CALL", "FROM"}
)

# Functions with arguments of any type, which give a parameter no type (PostgreSQL's `"any"`, `anyelement`).
_ANY_TYPE = words(
    "ROW CONCAT CONCAT_WS FORMAT JSON_BUILD_OBJECT JSONB_BUILD_OBJECT JSON_BUILD_ARRAY JSONB_BUILD_ARRAY TO_JSON "
    "TO_JSONB JSON_AGG JSONB_AGG JSON_OBJECT_AGG JSONB_OBJECT_AGG ARRAY_AGG COUNT NUM_NULLS NUM_NONNULLS PG_TYPEOF "
    "PG_COLUMN_SIZE QUOTE_LITERAL QUOTE_NULLABLE"
)

Texts = tuple[str | Hole, ...]


class Bare(msgspec.Struct, frozen=True):
    """A template on its own. `listed`: a list expands to its items. `single`: part of a qualified name, a call or a
    cast, where a list of names would mean something else. `quoted`: in quotes of its own, which matter unless it
    gives a list. `in_untyped_place`: the context gives no type."""

    hole: Hole
    place: SqlPosition
    bindable: bool
    listed: PlacedList | None = None
    single: bool = False
    quoted: bool = False
    in_untyped_place: bool = False


class Word(msgspec.Struct, frozen=True):
    """A plain name with templates in it: `events_{{ year }}`."""

    texts: Texts


class QuotedName(msgspec.Struct, frozen=True):
    """A "quoted name" with templates in it."""

    texts: Texts


class QuotedText(msgspec.Struct, frozen=True):
    """A quoted constant with templates in it; `escapes` as in E'…'; `in_untyped_place` as for `Bare`."""

    texts: Texts
    bindable: bool
    escapes: bool = False
    in_untyped_place: bool = False


class Code(msgspec.Struct, frozen=True):
    """A dollar-quoted body with templates in it, in a statement that runs it (DO, CREATE FUNCTION)."""

    tag: str
    texts: Texts


Piece = str | Bare | Word | QuotedName | QuotedText | Code


class MisplacedError(ToolError):
    """A template in a place where no value is possible."""

    def __init__(self, hole: Hole, part_of: str) -> None:
        message = f"a template cannot be part of {part_of}; let it stand by itself, or in '…'"
        super().__init__("sql.fragment", message)
        self.hole = hole


class PlannedStatement(msgspec.Struct, frozen=True):
    pieces: tuple[Piece, ...]
    keyword: str


@lru_cache(maxsize=2_048)
def plan(text: str) -> tuple[PlannedStatement, ...]:
    """The statements of authored SQL. MisplacedError for a template in a place where no value is possible."""
    return planned(*cut(text))


def bound_lists(text: str) -> frozenset[int]:
    """The templates in SQL without blocks that are bound as lists, such as the whole of an `IN (…)`."""
    pieces = (piece for statement in plan(text) for piece in statement.pieces if isinstance(piece, Bare))
    return frozenset(one.hole.at for one in pieces if one.listed and one.bindable and not is_joined(one.hole))


def planned(masked: str, holes: tuple[Hole, ...]) -> tuple[PlannedStatement, ...]:
    """The statements of a text in which each template is a HOLE."""
    following = iter(holes)
    statements = [_Planning(statement, following).statement() for statement in split(tokens(masked))]
    return tuple(statement for statement in statements if statement.keyword)


def split(all_tokens: list[SqlToken]) -> Iterator[list[SqlToken]]:
    """The tokens of each statement: apart at `;` outside of parentheses and of `BEGIN ATOMIC … END`."""
    statement: list[SqlToken] = []
    depth, bodies, before = 0, 0, ""
    for token in all_tokens:
        word = token.text.upper() if token.kind is Kind.WORD else token.text
        if token.kind is Kind.SIGN and word == ";" and depth == 0 and bodies == 0:
            yield statement
            statement, before = [], ""
            continue
        statement.append(token)
        if token.kind is Kind.SPACE:
            continue
        depth = max(depth + (word == "(") - (word == ")"), 0)
        # The body of an SQL function holds `;` of its own; a CASE in it has an END of its own.
        if (word == "ATOMIC" and before == "BEGIN") or (bodies and word == "CASE"):
            bodies += 1
        elif bodies and word == "END":
            bodies -= 1
        before = word
    yield statement


def first_word(statement: list[SqlToken]) -> str:
    """The first word of a statement in capitals; the sign it begins with where that is no word."""
    for token in statement:
        if token.kind is not Kind.SPACE and token.text != "(":
            return token.text.upper()
    return ""


class _Planning:
    def __init__(self, statement: list[SqlToken], holes: Iterator[Hole]) -> None:
        self._tokens = statement
        self._holes = holes
        self._walk = SqlScanner()
        self._keyword = first_word(statement)
        # By the first word alone, so that it is settled before any value is known.
        self._binds = self._keyword in _TAKE_PARAMETERS

    def statement(self) -> PlannedStatement:
        pieces: list[Piece] = []
        for index, token in enumerate(self._tokens):
            pieces.append(self._piece(index, token))
            self._walk.take(token)
        return PlannedStatement(tuple(pieces), self._keyword.replace(HOLE, "?"))

    def _piece(self, index: int, token: SqlToken) -> Piece:
        if HOLE not in token.text:
            return token.text
        match token.kind:
            case Kind.SPACE:
                # The holes of a comment are taken off the iterator all the same, or all that follow would shift.
                self._texts(token.text)
                return " "  # a comment: its templates are not even evaluated
            case Kind.WORD if token.text == HOLE:
                return self._bare(index)
            case Kind.WORD:
                return Word(self._texts(token.text))
            case Kind.NAME:
                return self._name(token)
            case Kind.TEXT:
                return self._text(index, token)
            case Kind.DOLLAR:
                return self._dollar(token)
            case _:
                return self._refuse(token)

    def _bare(self, index: int) -> Bare:
        place, following = self._walk.place, self._next(index)
        # Before a dot or a parenthesis is the name of a schema or a function, never a value.
        if following in (".", "("):
            place = SqlPosition.NAME
        elif following == "::" and place is SqlPosition.OPEN:  # a cast shows that it is a value
            place = SqlPosition.VALUE
        hole = next(self._holes)
        listed = list_place(self._tokens, index, self._walk) if self._binds and following not in (".", "(") else None
        if listed is not None:
            place = SqlPosition.VALUE
            hole, listed = _list_of(hole, listed, quoted=False) or (hole, listed)
        if place is not SqlPosition.NAME:
            hole, quotes = as_value(hole)
            place = SqlPosition.VALUE if quotes else place
        single = following in (".", "(") or self._next(index, -1) in (".", "::")
        return Bare(hole, place, self._binds, listed, single, in_untyped_place=self._is_untyped(index))

    def _name(self, token: SqlToken) -> Piece:
        if token.text[0] != '"':
            return self._refuse(token)
        texts = self._texts(token.text[1:-1])
        return QuotedName(tuple(unescaped(text, '"') if isinstance(text, Hole) else text for text in texts))

    def _text(self, index: int, token: SqlToken) -> QuotedText | Bare | str:
        escapes = token.text[0] in "eE"
        if not escapes and token.text[0] != "'":
            return self._refuse(token)
        body = token.text[2:-1] if escapes else token.text[1:-1]
        texts = tuple(unescaped(text) if isinstance(text, Hole) else text for text in self._texts(body))
        listed = list_place(self._tokens, index, self._walk) if body == HOLE and self._binds else None
        if listed is not None:
            assert isinstance(texts[0], Hole)
            if items := _list_of(texts[0], listed, quoted=True):
                return Bare(items[0], SqlPosition.VALUE, True, items[1])
            if listed.place is ListPlace.ANY:
                return Bare(texts[0], SqlPosition.VALUE, True, listed, quoted=True)
        # after a type name (DATE '…') or FROM the grammar takes a constant and no parameter
        binds = self._binds and self._walk.place is not SqlPosition.NAME
        return QuotedText(texts, binds, escapes, self._is_untyped(index))

    def _is_untyped(self, index: int) -> bool:
        """Whether nothing around the token tells PostgreSQL a type: `$1 IS NULL`, `concat($1)`."""
        if self._next(index) == "IS":
            return True
        around = self._next(index, -1) in ("(", ",") and self._next(index) in (")", ",")
        return around and self._walk.within in _ANY_TYPE

    def _dollar(self, token: SqlToken) -> QuotedText | Code:
        tag = token.text[: token.text.index("$", 1) + 1]
        texts = self._texts(token.text[len(tag) : -len(tag)])
        if not self._binds:
            return Code(tag, texts)
        # Doubled, since the text of a QuotedText is read as written between plain quotes.
        return QuotedText(tuple(t.replace("'", "''") if isinstance(t, str) else t for t in texts), True)

    def _refuse(self, token: SqlToken) -> str:
        raise MisplacedError(next(self._holes), token.text.replace(HOLE, "{{ … }}"))

    def _texts(self, body: str) -> Texts:
        parts: list[str | Hole] = []
        for number, text in enumerate(body.split(HOLE)):
            if number:
                parts.append(next(self._holes))
            if text:
                parts.append(text)
        return tuple(parts)

    def _next(self, index: int, step: int = 1) -> str:
        """The token after (or before) another, white space left out, in capitals."""
        at = index + step
        while 0 <= at < len(self._tokens):
            if self._tokens[at].kind is not Kind.SPACE:
                return self._tokens[at].text.upper()
            at += step
        return ""


def _list_of(hole: Hole, listed: PlacedList, *, quoted: bool) -> tuple[Hole, PlacedList] | None:
    """The list whose items a template joins with commas there, or with the parentheses between rows. The text it would
    make (`IN ({{ ids | join(', ') }})`, `IN ('{{ names | join("', '") }}')`) cannot be bound; the list can."""
    comma, rows = ("','", "'),('") if quoted else (",", "),(")
    if listed.place is not ListPlace.ROWS and (found := hole.list_joined_with(comma)):
        return found, listed
    if listed.place is ListPlace.ROW and (found := hole.list_joined_with(rows)):
        return found, PlacedList(ListPlace.ROWS_INSIDE, listed.columns)
    return None


# Idioms of those for whom SQL is text: `'{{ x | replace("'", "''") }}'`, `{{ "'" ~ x ~ "'" if x else "NULL" }}`.

ESCAPING = re.compile(r"\breplace\s*\(")
WRITTEN = re.compile(
    r"""["']\\?'|'"|["']\s*(?:null|true|false|default|current_\w+|now\(\)|localtimestamp)\s*["']""", re.IGNORECASE
)


def unescaped(hole: Hole, quote: str = "'") -> Hole:
    """A template inside of quotes, without the doubling of quotes that would be stored once it is bound."""
    if type(hole) is not Hole or not ESCAPING.search(hole.source):
        return hole
    single, text = _unescaped_templates(hole.source, quote)
    return replace(hole, template=single, as_text=text) if single is not None else hole


def as_value(hole: Hole) -> tuple[Hole, bool]:
    """A template in the place of a value, as the value of its text in SQL; and whether it writes the quotes itself,
    so that it cannot be a name."""
    hole = unescaped(hole)
    if type(hole) is not Hole or not WRITTEN.search(hole.source):
        return hole, False
    template, quotes = _value_template(hole.source)
    return (replace(hole, template=template), quotes) if template is not None else (hole, False)


@lru_cache(maxsize=1_024)
def _unescaped_templates(source: str, quote: str) -> tuple[Template | None, Template | None]:
    """The template as a value and as text between other text; nothing where it does not double the quote."""
    from noetl.templates.sql.blocks import drop_escapes
    from noetl.templates.syntax import read_tree

    # read again, since the trees of parsed templates are shared
    tree, text = read_tree(source), read_tree(f".{source}")
    if not drop_escapes(tree, quote):
        return None, None
    drop_escapes(text, quote)
    return template_of(source, tree), template_of(f".{source}", text)


@lru_cache(maxsize=1_024)
def _value_template(source: str) -> tuple[Template | None, bool]:
    from noetl.templates.sql.blocks import drop_escapes, read_values
    from noetl.templates.syntax import read_tree

    tree = read_tree(source)
    drop_escapes(tree, "'")
    changed, quotes = read_values(tree)
    return (template_of(source, tree), quotes) if changed else (None, False)


# Impossible SQL: mistakes in the author's text alone, before there is a value (design.md §8).

KEYCHAIN = ("keychain",)


class Impossible(msgspec.Struct, frozen=True):
    """The reason why SQL can never run, and its place in the text, if known."""

    why: str
    at: int | None = None


def impossible(text: str) -> Impossible | None:
    """Why no value can make this SQL run; None for SQL that some value can. TemplateError where it does not parse."""
    try:
        if has_blocks(text):
            from noetl.templates.sql.blocks import usable

            usable(text)  # the places of values are known only when the blocks have run
            return None
        statements = plan(text)
    except MisplacedError as problem:
        return Impossible(problem.message, problem.hole.at)
    except ToolError as problem:
        return Impossible(problem.message)
    for statement in statements:
        for piece in statement.pieces:
            for hole in _unbound(piece):
                if hole.reads(KEYCHAIN):
                    why = f"{hole.source} reads a secret where SQL takes no parameter, and a secret can only be bound"
                    return Impossible(why, hole.at)
    return None


def _unbound(piece: Piece) -> Iterator[Hole]:
    """The templates of a piece that always become text of the statement."""
    match piece:
        case Bare(hole, place, bindable) if place is SqlPosition.NAME or not bindable:
            yield hole
        case QuotedText(texts, bindable) if not bindable:
            yield from (text for text in texts if isinstance(text, Hole))
        case Word(texts) | QuotedName(texts) | Code(_, texts):
            yield from (text for text in texts if isinstance(text, Hole))
