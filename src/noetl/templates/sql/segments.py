"""SQL text into what is SQL and what is `{{ … }}`. Text with blocks (`{% … %}`) is cut by running it
(`sql.blocks`)."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.expression import Template, parse
from noetl.templates.render import ScopeLike
from noetl.templates.sql.lexer import HOLE

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
    from noetl.templates.sql.idiom_trees import joining
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
