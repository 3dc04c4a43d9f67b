"""The lexer: SQL text into templates and the text between (`cut`), and that text to tokens, as PostgreSQL and DuckDB
read it (`tokens`). Text with blocks (`{% … %}`) is cut by running it (`sql.blocks`).

It knows quoted text in all its forms, quoted names, dollar quotes, nested comments and placeholders; grammar it does
not know. A template in the text is one `HOLE` character, which no SQL can hold otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from functools import lru_cache
from string import ascii_letters, digits
from typing import Any, NamedTuple

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.expression import Template, parse
from noetl.templates.render import ScopeLike

HOLE = "\x00"  # represents one template


class Kind(StrEnum):
    SPACE = "space"  # white space and comments
    WORD = "word"  # keyword or name
    NAME = "name"  # "quoted name"
    TEXT = "text"  # 'quoted text', with its prefix
    DOLLAR = "dollar"  # $tag$ quoted text $tag$
    NUMBER = "number"
    PLACE = "place"  # $1
    OPERATOR = "operator"
    SIGN = "sign"  # ( ) [ ] { } , ; . : and all others


class SqlToken(NamedTuple):
    kind: Kind
    text: str


def _letters_and(more: str) -> str:
    """A class of letters, which are all characters past ASCII too, and `more`. It is written by what it leaves out: a
    class that reaches up to the last character takes `re` ten times as long to compile, in every start of a program."""
    wanted = f"{ascii_letters}_{more}"
    return f"[^{''.join(re.escape(one) for one in map(chr, range(128)) if one not in wanted)}]"


_SPACES = re.compile(r"(?:[ \t\n\r\f\v]+|--[^\n\r]*)+")
_TEXT = re.compile(r"(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*'")
# In E'…' a backslash escapes the next character, a quote too; in '…' it is a plain character. Taking one for the other
# would end the text at the wrong quote.
_ESCAPED = re.compile(r"[eE]'(?:[^'\\]|''|\\.)*'", re.DOTALL)
_NAME = re.compile(r'(?:[uU]&)?"(?:[^"]|"")*"')
_TAG = re.compile(rf"\$(?:{_letters_and('')}{_letters_and(digits)}*)?\$")
_PLACE = re.compile(r"\$\d+")
_WORD = re.compile(rf"{_letters_and(HOLE)}{_letters_and(f'{digits}${HOLE}')}*")
# Letters too: `1abc` is one token that the database refuses, not a number and a name.
_NUMBER = re.compile(rf"(?:\d|\.\d)(?:[eE][+-](?=\d)|{_letters_and(f'{digits}.{HOLE}')})*")
# Operators are cut before a comment begins: `+--x` is a plus and a comment.
_OPERATOR = re.compile(r"::|:=|(?:(?!--|/\*)[+\-*/<>=~!@#%^&|`?])+")
_QUOTES = re.compile(r"(?:[eEbBxXnN]|[uU]&)?'|(?:[uU]&)?\"")
_COMMENT = re.compile(r"/\*|\*/")


def tokens(text: str) -> list[SqlToken]:
    """All of `text` in tokens. ToolError `sql.fragment` when a quote or a comment is never closed."""
    found: list[SqlToken] = []
    at = 0
    while at < len(text):
        token = _next(text, at)
        found.append(token)
        at += len(token.text)
    return found


def _next(text: str, at: int) -> SqlToken:
    # The order matters: comments before operators, quotes before words (E'…' begins with a letter), and dollar tags
    # before placeholders.
    if match := _SPACES.match(text, at):
        return SqlToken(Kind.SPACE, match.group())
    if text.startswith("/*", at):
        return SqlToken(Kind.SPACE, text[at : _comment_end(text, at)])
    if _QUOTES.match(text, at):
        return _quoted(text, at)
    if match := _TAG.match(text, at):
        return _dollar(text, at, match.group())
    for kind, pattern in _PLAIN:
        if match := pattern.match(text, at):
            return SqlToken(kind, match.group())
    return SqlToken(Kind.SIGN, text[at])


_PLAIN = ((Kind.PLACE, _PLACE), (Kind.WORD, _WORD), (Kind.NUMBER, _NUMBER), (Kind.OPERATOR, _OPERATOR))


def _quoted(text: str, at: int) -> SqlToken:
    for kind, pattern in ((Kind.TEXT, _ESCAPED), (Kind.TEXT, _TEXT), (Kind.NAME, _NAME)):
        if match := pattern.match(text, at):
            return SqlToken(kind, match.group())
    raise _open(text, at)


def _dollar(text: str, at: int, tag: str) -> SqlToken:
    end = text.find(tag, at + len(tag))
    if end < 0:
        raise _open(text, at)
    return SqlToken(Kind.DOLLAR, text[at : end + len(tag)])


def _comment_end(text: str, at: int) -> int:
    """The end of a comment, which may hold others."""
    depth = 0
    for match in _COMMENT.finditer(text, at):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    raise _open(text, at)


def _open(text: str, at: int) -> ToolError:
    begin = text[at : at + 20].replace(HOLE, "{{ … }}")
    return ToolError("sql.fragment", f"the SQL holds a quote or comment that is never closed: {begin}")


# Split the text into SQL and `{{ … }}`.

_OPENING = re.compile(r"\{\{[-+]?|\{#")
_INSIDE = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[({\[]|-?\}\}|[)}\]]", re.DOTALL)
_JOIN = re.compile(r"\|\s*join\b")
_CLOSES = {"(": ")", "[": "]", "{": "}"}


class Hole(msgspec.Struct, frozen=True):
    """One template, `at` its place in the text. `left` and `right` take away the blanks beside it, where they matter
    (`{{-`, `-}}`). `as_text` writes the value between other text, where that is not what the source says."""

    template: Template
    source: str
    left: bool = False
    right: bool = False
    at: int = 0
    as_text: Template | None = None

    def value(self, scope: ScopeLike, now: float | None) -> Any:
        return self.template.evaluate(scope, now, marks=True)

    def text(self, scope: ScopeLike, now: float | None) -> str:
        """The value as templates write it between other text."""
        # The dot makes it text between text: alone, the template would keep its native type.
        written = self.as_text or parse(f".{self.source}")
        return str(written.evaluate(scope, now))[1:]

    def reads(self, names: Collection[str]) -> bool:
        """Whether it reads one of `names`."""
        return any(read.root in names for read in self.template.references)

    def list_joined_with(self, separator: str) -> Hole | None:
        """The list whose items it joins with `separator`, blanks left out; None where it does not."""
        if not is_joined(self):
            return None
        found = _joined_list(self.source)
        if found is None or "".join(found[1].split()) != separator:
            return None
        return msgspec.structs.replace(self, template=parse(found[0]), source=found[0])


def is_joined(hole: Hole) -> bool:
    """Whether its value is, or may be, the text of a list."""
    return _JOIN.search(hole.source) is not None


@lru_cache(maxsize=1_024)
def _joined_list(source: str) -> tuple[str, str] | None:
    """The list that `{{ list | join(between) }}` joins, as a template, and what comes between its items."""
    from noetl.templates.sql.blocks import joining
    from noetl.templates.syntax import read_tree

    # the tree tells whether the last join is what the whole expression does: `a + b | join(',')` joins only b
    tree: Any = read_tree(source)
    between = joining(tree.body[0].nodes[0])
    if between is None:
        return None
    last = [match.start() for match in _JOIN.finditer(source)][-1]
    return f"{{{{ {source[2:last].strip()} }}}}", between


def has_blocks(text: str) -> bool:
    """Whether SQL text is to be run before it can be cut."""
    return "{%" in text


def cut(text: str) -> tuple[str, tuple[Hole, ...]]:
    """`text` with one HOLE character per template, and the templates."""
    if HOLE in text:
        raise ToolError("sql.fragment", "SQL cannot hold the character U+0000")
    kept: list[str] = []
    holes: list[Hole] = []
    at = 0
    while match := _OPENING.search(text, at):
        kept.append(text[at : match.start()])
        opening = match.group()
        if opening == "{#":
            at = _after(text, "#}", match.end())
            continue
        end, closing = _end(text, match.end())
        holes.append(_hole(text[match.end() : end], opening, closing, match.start()))
        kept.append(HOLE)
        at = end + len(closing)
    kept.append(text[at:])
    return "".join(kept), tuple(holes)


def _hole(expression: str, opening: str, closing: str, at: int) -> Hole:
    source = f"{{{{ {expression.strip()} }}}}"
    return Hole(parse(source), source, left=opening.endswith("-"), right=closing.startswith("-"), at=at)


def _end(text: str, at: int) -> tuple[int, str]:
    """Where the expression that begins at `at` ends, and with which sign."""
    waiting: list[str] = []
    while match := _INSIDE.search(text, at):
        sign = match.group()
        at = match.end()
        if sign in _CLOSES:
            waiting.append(_CLOSES[sign])
        elif sign.endswith("}}") and not waiting:
            return match.start(), sign
        elif sign.endswith("}"):  # one brace of two or three: it closes a mapping
            at = match.start() + sign.index("}") + 1
            if waiting:
                waiting.pop()
        elif waiting and sign == waiting[-1]:
            waiting.pop()
    raise ToolError("sql.fragment", "the SQL holds a template that is never closed")


def _after(text: str, sign: str, at: int) -> int:
    end = text.find(sign, at)
    return len(text) if end < 0 else end + len(sign)
