"""The lexer: SQL text to tokens, as PostgreSQL and DuckDB cut it.

It knows quoted text in all its forms, quoted names, dollar quotes, nested comments and placeholders; grammar it does
not know. A template in the text is one `HOLE` character, which no SQL can hold otherwise.
"""

from __future__ import annotations

import re
from enum import StrEnum
from string import ascii_letters, digits
from typing import NamedTuple

from noetl.base.errors import ToolError

HOLE = "\x00"  # stands for one template


class Kind(StrEnum):
    SPACE = "space"  # white space and comments
    WORD = "word"  # keyword or name
    NAME = "name"  # "quoted name"
    TEXT = "text"  # 'quoted text', with its prefix
    DOLLAR = "dollar"  # $tag$ quoted text $tag$
    NUMBER = "number"
    PLACE = "place"  # $1
    OPERATOR = "operator"
    SIGN = "sign"  # ( ) [ ] { } , ; . : and whatever is left


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
