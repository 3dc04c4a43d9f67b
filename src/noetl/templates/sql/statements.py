"""Statements ready to run: text with numbered placeholders, and the values that belong to them. Also the author's own
placeholders, filled from `params`, by position or by name (TOOL-05).

By position: `$1`, `%s`, and `?` where the database has no operator of that name. By name: `:name`, `%(name)s`, `$name`,
for names that `params` holds; anything else that looks like one is left to the database. In a statement that has a
placeholder with `%`, `%%` is a plain `%` everywhere, as in drivers with these placeholders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.base.errors import ToolError


class Parameter(msgspec.Struct, frozen=True):
    """A bound value. It means what the same value written as a constant would mean: `typed` numbers and booleans are
    numbers and booleans, everything else takes the type its place asks for, as a quoted constant does. `source` is the
    template it comes from: the same template with the same value is one parameter. `in_untyped_place`: its place asks
    for no type, so the value alone decides."""

    value: Any
    typed: bool = False
    source: str = ""
    in_untyped_place: bool = False

    def is_same(self, other: Parameter) -> bool:
        """Whether both are one template that gave one value."""
        return (
            bool(self.source)
            and (self.source, self.typed, self.in_untyped_place) == (other.source, other.typed, other.in_untyped_place)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )


Part = str | Parameter


class Statement(msgspec.Struct, frozen=True):
    """One statement. `keyword` is its first word, in capitals."""

    parts: tuple[Part, ...]
    keyword: str = ""

    @property
    def text(self) -> str:
        """The statement with `$1`, `$2`, … in place of its parameters."""
        numbers = iter(numbering(self.parts)[0])
        return "".join(part if isinstance(part, str) else f"${next(numbers)}" for part in self.parts)

    @property
    def params(self) -> tuple[Any, ...]:
        return tuple(parameter.value for parameter in numbering(self.parts)[1])


class Bound(msgspec.Struct, frozen=True):
    """An input of SQL, its templates evaluated."""

    statements: tuple[Statement, ...] = ()


def numbering(parts: tuple[Part, ...]) -> tuple[list[int], list[Parameter]]:
    """The number of each parameter in its place, from one, and the parameters by number, each once. A database that
    compares expressions (GROUP BY) sees the same template as the same parameter."""
    numbers: list[int] = []
    found: list[Parameter] = []
    by_source: dict[str, list[int]] = {}
    for part in parts:
        if isinstance(part, str):
            continue
        alike = by_source.setdefault(part.source, [])
        number = next((each for each in alike if found[each - 1].is_same(part)), 0) if part.source else 0
        if not number:
            found.append(part)
            number = len(found)
            alike.append(number)
        numbers.append(number)
    return numbers, found


# Constants: values written as SQL, where a statement takes no parameter; and quoted text read back.

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL)


def constant(value: Any) -> str:
    """`value` as an SQL constant: text in quotes that it cannot leave."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            # `repr` of a float reads back as the same number.
            return repr(value)
        case _:
            return quoted(as_text(value))


def quoted(text: str) -> str:
    """Text as a constant; a backslash in it is a backslash (`standard_conforming_strings`, which connections set)."""
    if "\x00" in text:
        raise ToolError("sql.fragment", "text for SQL holds the character U+0000, which no database keeps")
    return "'" + text.replace("'", "''") + "'"


def quoted_name(name: str) -> str:
    """A column by its exact name."""
    return '"' + name.replace('"', '""') + '"'


def as_text(value: Any) -> str:
    """A value as the text of a quoted constant: lists and mappings as JSON, true and false as SQL has them."""
    match value:
        case str():
            return str.__str__(value)
        case bool():
            return "true" if value else "false"
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        case _:
            return str(value)


def unquoted(text: str, *, escapes: bool) -> str:
    """The value of quoted text, given the text between its quotes; `escapes` as in E'…'."""
    return _ESCAPE.sub(_unescaped, text) if escapes else text.replace("''", "'")


def _unescaped(match: re.Match[str]) -> str:
    short, long, hexadecimal, octal, other = match.groups()
    if short or long or hexadecimal:
        return chr(int(short or long or hexadecimal, 16))
    if octal:
        # Three octal digits can exceed a byte; PostgreSQL takes the low byte.
        return chr(int(octal, 8) & 0xFF)
    return "'" if other is None else _ESCAPES.get(other, other)


_NAMED = re.compile(r"%\((\w+)\)s\Z|[:$](\w+)\Z")
_OPERATOR = re.compile(r"[+\-*/<>=~!@#%^&|`?]+")
_BEFORE = re.compile(r"((?:[+\-*/<>=~!@#^&|`?]|%%)+)%")  # a placeholder, as in `a=%s`


def with_params(bound: Bound, params: Any, *, question_marks: bool = False) -> Bound:
    """`bound` with its placeholders filled. ToolError `sql.input` for a number that `params` does not have."""
    if params is None:
        return bound
    if not isinstance(params, dict | list):
        raise ToolError("sql.input", f"params is a list or a mapping, not {type(params).__name__}")
    filling = _Named(params) if isinstance(params, dict) else _Numbered(params, question_marks)
    statements = tuple(Statement(_filled(filling, one.parts), one.keyword) for one in bound.statements)
    if isinstance(filling, _Numbered):
        # A value without a placeholder is a mistake. Most often the placeholder is in quotes, where it is text.
        filling.check()
    return Bound(statements)


def _filled(filling: _Numbered | _Named, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    # For each statement separately: `%%` is a plain `%` only beside a placeholder with `%`.
    filling.percents = False
    found = tuple(filling.filled(tuple(_split_placeholders(parts, filling.signs))))
    if not filling.percents:
        return found
    return tuple(part.replace("%%", "%") if isinstance(part, str) else part for part in found)


def _split_placeholders(parts: tuple[Part, ...], signs: tuple[str, ...]) -> Iterator[Part]:
    """`=%s` was cut as an operator `=%` and a word, `=?` as an operator: here placeholders become separate tokens."""
    for part, following in zip(parts, (*parts[1:], ""), strict=True):
        if not isinstance(part, str) or not _OPERATOR.fullmatch(part):
            yield part
        elif following in ("s", "(") and (before := _BEFORE.fullmatch(part)):
            yield from (before[1], "%")
        else:
            yield from filter(None, re.split(r"(\?)", part)) if signs else (part,)


class _Numbered:
    """`$1` counts from one in every statement; `%s` and `?` take the next value, through all statements."""

    def __init__(self, params: list[Any], question_marks: bool) -> None:
        self._params = params
        self.signs: tuple[str, ...] = ("?",) if question_marks else ()
        self.percents = False  # whether one with % was filled
        self._next = 0
        self._used: set[int] = set()

    def filled(self, parts: tuple[Part, ...]) -> Iterator[Part]:
        skip = False
        for index, part in enumerate(parts):
            if skip:
                skip = False
            elif isinstance(part, str) and part[:1] == "$" and part[1:].isdigit():
                yield self._at(int(part[1:]) - 1, part)
            elif part == "%" and index + 1 < len(parts) and parts[index + 1] == "s":
                skip = self.percents = True
                yield self._following("%s")
            elif part in self.signs:
                yield self._following(str(part))
            else:
                yield part

    def _following(self, sign: str) -> Parameter:
        self._next += 1
        return self._at(self._next - 1, sign)

    def _at(self, index: int, sign: str) -> Parameter:
        if not 0 <= index < len(self._params):
            raise ToolError("sql.input", f"{sign} has no value: params holds {len(self._params)}")
        self._used.add(index)
        return Parameter(self._params[index])

    def check(self) -> None:
        if unused := sorted(set(range(len(self._params))) - self._used):
            raise ToolError("sql.input", f"no placeholder takes value number {unused[0] + 1} of params")


class _Named:
    signs = ()

    def __init__(self, params: dict[str, Any]) -> None:
        self._params = params
        self.percents = False

    def filled(self, parts: tuple[Part, ...]) -> Iterator[Part]:
        index = 0
        while index < len(parts):
            taken, part = self._placeholder(parts, index)
            yield part
            index += taken

    def _placeholder(self, parts: tuple[Part, ...], index: int) -> tuple[int, Part]:
        """The number of tokens of the placeholder at `index`, and its replacement."""
        # `%(name)s` was cut into four or five tokens, `:name` and `$name` into two.
        for taken in (5, 4, 2):
            group = parts[index : index + taken]
            if len(group) == taken and all(isinstance(part, str) for part in group):
                match = _NAMED.match("".join(map(str, group)))
                name = (match[1] or match[2]) if match else None
                if name in self._params:
                    self.percents = self.percents or taken == 5
                    return taken, Parameter(self._params[name])
        return 1, parts[index]


# Names: text that looks like an SQL identifier, or a list of them (design.md §8).

_PART = r'(?:[^\W\d]\w*|"(?:[^"\x00]|"")+")'
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*\Z")
_PARTS = re.compile(_PART)
_PLAIN = re.compile(r"[^\W\d][\w$]*\Z")
_PIECE = re.compile(r"\w+\Z")

STAR = "*"


def names_in(value: Any) -> list[str] | None:
    """The names in text such as `a, s.b` or in a list of such texts; None when it is anything else."""
    texts = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else []
    names = [text.strip() for text in texts if isinstance(text, str)]
    if not names or len(names) != len(texts) or not all(name == STAR or _NAME.match(name) for name in names):
        return None
    return names


def is_piece(text: Any) -> bool:
    """Whether text may be a part of a longer plain name: `events_{{ year }}`."""
    return isinstance(text, str | int) and not isinstance(text, bool) and bool(_PIECE.match(str(text)))


def is_plain(word: str) -> bool:
    return bool(_PLAIN.match(word))


def column(name: str) -> str:
    """A name in quotes, so that a keyword is a column like any other; plain names fold as unquoted ones do, which
    leaves letters beyond ASCII alone."""
    if name == STAR:
        return STAR
    return ".".join(part if part[0] == '"' else f'"{_folded_word(part)}"' for part in _PARTS.findall(name))


def _folded_word(word: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in word)
