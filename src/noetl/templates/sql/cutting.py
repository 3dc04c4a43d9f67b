"""Cutting: SQL text into what is SQL and what is `{{ … }}`. Statements (`{% … %}`) would make SQL out of values."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from noetl.errors import ToolError
from noetl.templates.expression import Template, parse
from noetl.templates.sql.lexer import HOLE

_OPENING = re.compile(r"\{\{[-+]?|\{%|\{#")
_INSIDE = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[({\[]|-?\}\}|[)}\]]", re.DOTALL)
_CLOSES = {"(": ")", "[": "]", "{": "}"}


class Hole(msgspec.Struct, frozen=True):
    """One template: `left` and `right` take away the blanks beside it, where they matter (`{{-`, `-}}`)."""

    template: Template
    source: str
    left: bool = False
    right: bool = False

    def reads(self, names: Collection[str]) -> bool:
        """Whether it reads one of `names`."""
        return any(read.root in names for read in self.template.references)


def cut(text: str) -> tuple[str, tuple[Hole, ...]]:
    """`text` with one HOLE character per template, and the templates. ToolError `sql.fragment` for `{% … %}`."""
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
        if opening == "{%":
            raise _statement(text[match.start() : match.start() + 40])
        end, closing = _end(text, match.end())
        holes.append(_hole(text[match.end() : end], opening, closing))
        kept.append(HOLE)
        at = end + len(closing)
    kept.append(text[at:])
    return "".join(kept), tuple(holes)


def _hole(expression: str, opening: str, closing: str) -> Hole:
    source = f"{{{{ {expression.strip()} }}}}"
    return Hole(parse(source), source, left=opening.endswith("-"), right=closing.startswith("-"))


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


def _statement(begin: str) -> ToolError:
    return ToolError(
        "sql.fragment",
        f'"{begin}" would make SQL out of values; write {{{{ … }}}} where a value stands, '
        "bind a list with IN ({{ … }}), or make the whole command one {{ … | sql }}",
    )
