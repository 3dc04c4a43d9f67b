"""Binding: SQL text and a scope to statements with parameters (O-23, design.md §8).

A value becomes a parameter, a checked name, or, where SQL takes neither, a constant in quotes that it cannot leave.
Only text that the author marked (`| identifier`, `| sql`), and a command that is one single expression, is SQL itself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from noetl.base.diagnostics import is_template
from noetl.base.errors import ToolError
from noetl.templates.expression import parse
from noetl.templates.render import ScopeLike
from noetl.templates.sql.lexer import HOLE, Hole, has_blocks, tokens
from noetl.templates.sql.plan import (
    Bare,
    Code,
    Piece,
    PlannedStatement,
    QuotedName,
    QuotedText,
    Texts,
    Word,
    first_word,
    plan,
    planned,
    split,
)
from noetl.templates.sql.positions import ListPlace, SqlPosition, add_list
from noetl.templates.sql.statements import (
    Bound,
    Parameter,
    Part,
    Statement,
    as_text,
    column,
    constant,
    is_piece,
    is_plain,
    names_in,
    quoted,
    unquoted,
)
from noetl.templates.values import SqlFragment, SqlIdentifier

KEYCHAIN = "keychain"
_SEPARATE = frozenset(" \t\n\r\f\v(),;")


def bind(authored: Any, scope: ScopeLike, *, now: float | None = None, secrets: Collection[str] = (KEYCHAIN,)) -> Bound:
    """The statements of an authored SQL input: text, or a list of texts. TemplateError or ToolError `sql.fragment`.

    What templates read under the names of `secrets` may only be bound (O-23).
    """
    if isinstance(authored, list):
        each = (bind(text, scope, now=now, secrets=secrets).statements for text in authored)
        return Bound(tuple(statement for statements in each for statement in statements))
    if not isinstance(authored, str):
        raise ToolError("sql.fragment", f"SQL is text or a list of texts, not {type(authored).__name__}")
    if is_template(authored):
        whole = parse(authored)
        if whole.single:
            return _dynamic(authored, whole.evaluate(scope, now), any(r.root in secrets for r in whole.references))
    binding = _Binding(scope, now, secrets)
    return Bound(tuple(binding.statement(each) for each in _planned_statements(authored, scope, now)))


def _planned_statements(authored: str, scope: ScopeLike, now: float | None) -> tuple[PlannedStatement, ...]:
    if not has_blocks(authored):
        return plan(authored)
    from noetl.templates.sql.blocks import expanded  # it needs the full parser, which little SQL does

    return planned(*expanded(authored, scope, now))


def read(text: Any) -> Bound:
    """SQL that is data, as it is: split into statements, never looked through for templates."""
    if isinstance(text, list):
        return Bound(tuple(each for one in text for each in read(one).statements))
    if not isinstance(text, str):
        raise ToolError("sql.fragment", f"SQL is text or a list of texts, not {type(text).__name__}")
    if HOLE in text:
        raise ToolError("sql.fragment", "SQL cannot hold the character U+0000")
    found = ((first_word(each), tuple(token.text for token in each)) for each in split(tokens(text)))
    return Bound(tuple(Statement(parts, keyword) for keyword, parts in found if keyword))


def _dynamic(source: str, value: Any, secret: bool) -> Bound:
    """A command that is one expression is SQL made at run time: run as given (W_SQL_FRAGMENT at check time)."""
    if secret:
        raise _refusal(source.strip(), "reads a secret, and a secret can only be bound")
    return read(value)


class _Binding:
    def __init__(self, scope: ScopeLike, now: float | None, secrets: Collection[str]) -> None:
        self._scope, self._now, self._secrets = scope, now, secrets
        self._skip = ""

    def statement(self, planned: PlannedStatement) -> Statement:
        parts: list[Part] = []
        apart = False
        for piece in planned.pieces:
            if self._skip and piece == self._skip:  # the end of what a list has taken the place of
                self._skip = ""
                continue
            if parts and (apart or not isinstance(piece, str)) and _touch(parts[-1], piece):
                parts.append(" ")  # `-{{ x }}` with -1 must not begin a comment, nor `LIKE'{{ x }}'` become LIKE$1
            self._add(piece, parts)
            apart = not isinstance(piece, str)
        return Statement(tuple(parts), planned.keyword)

    def _add(self, piece: Piece, parts: list[Part]) -> None:
        match piece:
            case str():
                parts.append(piece)
            case Bare():
                self._bare(piece, parts)
            case Word():
                parts.append(self._word(piece))
            case QuotedName():
                inside = "".join(self._pieces(piece.texts, lambda text: text.replace('"', '""')))
                parts.append(f'"{inside}"')
            case QuotedText():
                parts.append(self._quoted(piece))
            case Code():
                parts.append(self._code(piece))

    def _bare(self, bare: Bare, parts: list[Part]) -> None:
        value = self._value(bare.hole)
        if isinstance(value, SqlIdentifier | SqlFragment):
            parts.append(str.__str__(self._open(bare.hole, value)))
        elif bare.listed is not None and isinstance(value, list):
            self._skip = add_list(bare.listed, bare.hole.source, value, parts)
        elif bare.listed is not None and bare.listed.place is ListPlace.ROWS:
            given = _value_text(self._open(bare.hole, value))
            way_out = "give a list of rows, or mark SQL of your own {{ … | sql }}"
            raise _refusal(bare.hole.source, f"stands where VALUES takes rows and gives {given}; {way_out}")
        elif bare.place is SqlPosition.NAME or (bare.place is SqlPosition.OPEN and isinstance(value, str | list)):
            parts.append(_names(bare, self._open(bare.hole, value)))
        elif not bare.bindable:
            parts.append(constant(self._open(bare.hole, value)))
        elif bare.quoted:
            parts.append(Parameter(_text_or_null(value), source=bare.hole.source))
        else:
            parts.append(Parameter(value, typed=True, source=bare.hole.source, in_untyped_place=bare.in_untyped_place))

    def _word(self, word: Word) -> str:
        written = []
        for text in word.texts:
            if isinstance(text, Hole):
                value = self._open(text, self._value(text))
                if not is_piece(value):
                    raise _refusal(
                        text.source, f"is part of a name and gives {_value_text(value)}, which no name can hold"
                    )
                text = str(value)
            written.append(text)
        if not is_plain("".join(written)):
            raise _refusal("".join(written), "is no name")
        return "".join(written)

    def _quoted(self, piece: QuotedText) -> Part:
        texts = piece.texts
        if len(texts) == 1 and isinstance(texts[0], Hole):
            value = _text_or_null(self._value(texts[0]))
            holes = [texts[0]]
        else:
            value = self._joined(texts, piece.escapes)
            holes = [text for text in texts if isinstance(text, Hole)]
        if piece.bindable:
            source = "'".join(text if isinstance(text, str) else text.source for text in texts)
            return Parameter(value, source=f"'{source}'", in_untyped_place=piece.in_untyped_place)
        # A constant is text of the statement, so no part of it may be a secret.
        for hole in holes:
            self._open(hole, value)
        return "NULL" if value is None else quoted(value)

    def _joined(self, texts: Texts, escapes: bool) -> str:
        """Quoted text and templates in one; `{{-` and `-}}` take blanks away, as anywhere in a template."""
        joined, trim = "", False
        for text in texts:
            if isinstance(text, Hole):
                joined = (joined.rstrip() if text.left else joined) + self._text(text)
                trim = text.right
            else:
                plain = unquoted(text, escapes=escapes)
                joined += plain.lstrip() if trim else plain
                trim = False
        return joined

    def _code(self, code: Code) -> str:
        body = "".join(self._pieces(code.texts, lambda text: text, marked=True))
        # Also where the value alone does not hold the tag: the author's text and a value may form it together.
        if code.tag in body:
            raise ToolError("sql.fragment", f"a value holds {code.tag}, which would end the body it stands in")
        return code.tag + body + code.tag

    def _pieces(self, texts: Texts, escape: Any, *, marked: bool = False) -> list[str]:
        written = []
        for text in texts:
            if isinstance(text, str):
                written.append(text)
                continue
            value = self._open(text, self._value(text))
            if marked and not isinstance(value, SqlFragment | SqlIdentifier):
                raise _refusal(text.source, "would become code of the body it stands in: mark it {{ … | sql }}")
            if isinstance(value, str) and HOLE in value:
                raise _refusal(text.source, "holds the character U+0000")
            written.append(escape(self._text(text) if not isinstance(value, str) else str.__str__(value)))
        return written

    def _open(self, hole: Hole, value: Any) -> Any:
        """`value`, unless it is secret and so may only be bound."""
        if hole.reads(self._secrets):
            raise _refusal(hole.source, "reads a secret, and a secret can only be bound")
        return value

    def _value(self, hole: Hole) -> Any:
        return hole.value(self._scope, self._now)

    def _text(self, hole: Hole) -> str:
        """The value as templates write it between other text; lists and mappings as JSON."""
        value = self._value(hole)
        if isinstance(value, dict | list):
            return as_text(value)
        return hole.text(self._scope, self._now)


def _names(bare: Bare, value: Any) -> str:
    names = names_in(value)
    if names is None or ("*" in names and bare.place is SqlPosition.NAME) or (bare.single and len(names) != 1):
        raise _refusal(
            bare.hole.source,
            f"stands where SQL takes a name and gives {_value_text(value)}; for a value write it in quotes, "
            "for a name {{ … | identifier }}, for SQL of your own {{ … | sql }}",
        )
    # in a select list or a condition a keyword (true, null, current_user) would be more than a name
    return ", ".join(map(column, names) if bare.place is SqlPosition.OPEN else names)


def _text_or_null(value: Any) -> str | None:
    """A value in quotes is text; null stays null, as it does outside of quotes."""
    return as_text(value) if value is not None else None


def _touch(left: Part, right: Piece) -> bool:
    """Whether two neighbours could be read as one token, had they no blank between them."""
    before = left[-1:] if isinstance(left, str) else "$"
    after = right[:1] if isinstance(right, str) else "$"
    return before not in _SEPARATE and after not in _SEPARATE


def _refusal(source: str, why: str) -> ToolError:
    return ToolError("sql.fragment", f"{source} {why}")


def _value_text(value: Any) -> str:
    text = as_text(value)
    return f'"{text if len(text) <= 60 else text[:57] + "…"}"' if isinstance(value, str) else type(value).__name__
